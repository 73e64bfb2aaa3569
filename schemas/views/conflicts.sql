-- Figures that do not agree: of like runs, or within one observation.
with standing as (
    select o.*
    from observations as o
    where not exists (select 1 from retractions as x where x.observation_id = o.observation_id)
),
figures as (
    select
        o.configuration_id,
        o.environment_id,
        coalesce(c.n_steps, c.n_epochs) is not null as is_of_stated_length,
        m.*,
        case m.statistic when 'median' then 1 when 'value' then 2 when 'mean' then 3 end as place
    from standing as o
    inner join configurations as c on o.configuration_id = c.configuration_id
    inner join measurements as m on o.observation_id = m.observation_id
),
-- A recorded run's mean covers the steps after its warm-up.
warmups as (
    select observation_id, count(*) as n_steps, sum(samples) as n_samples
    from samples
    where warmup
    group by observation_id
),
totals as (
    select
        m.observation_id,
        c.n_samples * c.n_epochs as n_samples, -- epochs that are not stated are not taken for one
        max(m.value) filter (where m.metric = 'n_samples') - coalesce(max(w.n_samples), 0)
            as n_samples_seen,
        max(m.value) filter (where m.metric = 'n_steps') - coalesce(max(w.n_steps), 0) as n_steps,
        min_by(m.value, m.place) filter (where m.metric = 'total_time') as total_seconds,
        min_by(m.value, m.place) filter (where m.metric = 'samples_per_second')
            as samples_per_second,
        min_by(m.value, m.place) filter (where m.metric = 'sample_time') as sample_seconds,
        -- many times the median is not the sum: only a mean bounds the time of a run
        min_by(m.value, m.place) filter (where m.metric = 'samples_per_second' and m.place > 1)
            as mean_samples_per_second,
        min_by(m.value, m.place) filter (where m.metric = 'step_time' and m.place > 1)
            as step_seconds
    from figures as m
    inner join configurations as c on m.configuration_id = c.configuration_id
    left join warmups as w on m.observation_id = w.observation_id
    where m.origin = 'reported' and m.scope = 'total'
    group by m.observation_id, c.n_samples, c.n_epochs
),
-- The speeds of one observation by their statistic: a median is not held against a mean.
speeds as (
    select
        m.observation_id,
        m.statistic,
        c.global_batch_size,
        c.seq_len,
        c.length_distribution = 'full' as is_full,
        max(m.value) filter (where m.metric = 'step_time') as step_seconds,
        max(m.value) filter (where m.metric = 'steps_per_second') as steps_per_second,
        max(m.value) filter (where m.metric = 'samples_per_second') as samples_per_second,
        max(m.value) filter (where m.metric = 'tokens_per_second') as tokens_per_second
    from figures as m
    inner join configurations as c on m.configuration_id = c.configuration_id
    where m.origin = 'reported' and m.scope = 'total' and m.place is not null
    group by
        m.observation_id, m.statistic, c.global_batch_size, c.seq_len, c.length_distribution
),
rates as (
    select
        observation_id,
        is_full,
        steps_per_second,
        samples_per_second,
        tokens_per_second,
        1 / nullif(step_seconds, 0) as steps_of_time,
        global_batch_size * coalesce(steps_per_second, 1 / nullif(step_seconds, 0))
            as samples_of_steps,
        seq_len * coalesce(
            samples_per_second,
            global_batch_size * coalesce(steps_per_second, 1 / nullif(step_seconds, 0))
        ) as most_tokens
    from speeds
),
compared as (
    select
        'same configuration and environment' as kind,
        a.observation_id,
        b.observation_id as other_observation_id,
        a.metric,
        a.value,
        b.value as other_value
    from figures as a
    inner join figures as b
        on a.configuration_id = b.configuration_id
        and a.environment_id = b.environment_id
        and a.metric = b.metric
        and a.statistic = b.statistic
        and a.scope = b.scope
        and a.kind is not distinct from b.kind
        and a.device_index is not distinct from b.device_index
        and a.observation_id < b.observation_id
    where a.metric not in ('train_loss', 'eval_loss', 'accuracy') -- chance, not measurement
        -- how long a run went on, such as to a loss, unless that was a setting
        and a.metric not in ('n_samples', 'n_steps')
        and a.metric <> 'sequence_length' -- of the data
        and (a.metric <> 'total_time' or a.is_of_stated_length)
    union all
    select
        'rate x time against samples' as kind,
        observation_id,
        cast(null as string) as other_observation_id,
        'samples_per_second' as metric,
        samples_per_second as value,
        n_samples / nullif(total_seconds, 0) as other_value
    from totals
    union all
    select
        'time per sample x samples against time' as kind,
        observation_id,
        cast(null as string) as other_observation_id,
        'sample_time' as metric,
        sample_seconds as value,
        total_seconds / nullif(n_samples, 0) as other_value
    from totals
    union all
    -- the time of a run holds more than its steps, and never less
    select
        'rate x time against samples' as kind,
        observation_id,
        cast(null as string) as other_observation_id,
        'samples_per_second' as metric,
        mean_samples_per_second as value,
        n_samples_seen / nullif(total_seconds, 0) as other_value
    from totals
    where n_samples is null and mean_samples_per_second < n_samples_seen / nullif(total_seconds, 0)
    union all
    select
        'step time x steps against time' as kind,
        observation_id,
        cast(null as string) as other_observation_id,
        'step_time' as metric,
        step_seconds as value,
        total_seconds / nullif(n_steps, 0) as other_value
    from totals
    where step_seconds > total_seconds / nullif(n_steps, 0)
    union all
    select
        'steps per second against step time' as kind,
        observation_id,
        cast(null as string) as other_observation_id,
        'steps_per_second' as metric,
        steps_per_second as value,
        steps_of_time as other_value
    from rates
    union all
    select
        'samples per second against batch and steps' as kind,
        observation_id,
        cast(null as string) as other_observation_id,
        'samples_per_second' as metric,
        samples_per_second as value,
        samples_of_steps as other_value
    from rates
    union all
    -- sequences may be shorter than the length they are cut to, and never longer
    select
        'tokens per second against samples and length' as kind,
        observation_id,
        cast(null as string) as other_observation_id,
        'tokens_per_second' as metric,
        tokens_per_second as value,
        most_tokens as other_value
    from rates
    where is_full or tokens_per_second > most_tokens
)
select
    kind,
    observation_id,
    other_observation_id,
    metric,
    value,
    other_value,
    other_value / nullif(value, 0) as ratio
from compared
where abs(other_value - value) > 0.02 * greatest(other_value, value)
union all
select
    'flagged by the source' || chr(39) || 's reader' as kind, -- engines differ in quotes in texts
    observation_id,
    cast(null as string) as other_observation_id,
    cast(null as string) as metric,
    cast(null as double) as value,
    cast(null as double) as other_value,
    cast(null as double) as ratio
from standing
where array_contains(flags, 'figures_disagree')
