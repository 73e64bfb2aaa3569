-- Figures that do not agree: of like runs, or within one observation.
with standing as (
    select *
    from observations
    where observation_id not in (select observation_id from retractions)
),
figures as (
    select
        o.configuration_id,
        o.environment_id,
        m.*
    from standing as o
    inner join measurements as m using (observation_id)
),
totals as (
    select
        m.observation_id,
        c.n_samples * c.n_epochs as n_samples, -- epochs that are not stated are not taken for one
        max(m.value) filter (m.metric = 'n_samples') as n_samples_seen,
        max(m.value) filter (m.metric = 'n_steps') as n_steps,
        arg_min(m.value, list_position(['median', 'value', 'mean'], m.statistic))
            filter (m.metric = 'total_time') as total_seconds,
        arg_min(m.value, list_position(['median', 'value', 'mean'], m.statistic))
            filter (m.metric = 'samples_per_second') as samples_per_second,
        arg_min(m.value, list_position(['median', 'value', 'mean'], m.statistic))
            filter (m.metric = 'sample_time') as sample_seconds,
        -- many times the median is not the sum: only a mean bounds the time of a run
        arg_min(m.value, list_position(['value', 'mean'], m.statistic))
            filter (m.metric = 'samples_per_second') as mean_samples_per_second,
        arg_min(m.value, list_position(['value', 'mean'], m.statistic))
            filter (m.metric = 'step_time') as step_seconds
    from figures as m
    inner join configurations as c using (configuration_id)
    where m.origin = 'reported' and m.scope = 'total'
    group by all
),
-- The speeds of one observation by their statistic: a median is not held against a mean.
speeds as (
    select
        m.observation_id,
        m.statistic,
        c.global_batch_size,
        c.seq_len,
        c.length_distribution = 'full' as is_full,
        max(m.value) filter (m.metric = 'step_time') as step_seconds,
        max(m.value) filter (m.metric = 'steps_per_second') as steps_per_second,
        max(m.value) filter (m.metric = 'samples_per_second') as samples_per_second,
        max(m.value) filter (m.metric = 'tokens_per_second') as tokens_per_second
    from figures as m
    inner join configurations as c using (configuration_id)
    where
        m.origin = 'reported' and m.scope = 'total' and m.statistic in ('median', 'value', 'mean')
    group by all
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
    union all by name
    select
        'rate x time against samples' as kind,
        observation_id,
        'samples_per_second' as metric,
        samples_per_second as value,
        n_samples / total_seconds as other_value
    from totals
    union all by name
    select
        'time per sample x samples against time' as kind,
        observation_id,
        'sample_time' as metric,
        sample_seconds as value,
        total_seconds / n_samples as other_value
    from totals
    union all by name
    -- the time of a run holds more than its steps, and never less
    select
        'rate x time against samples' as kind,
        observation_id,
        'samples_per_second' as metric,
        mean_samples_per_second as value,
        n_samples_seen / total_seconds as other_value
    from totals
    where n_samples is null and mean_samples_per_second < n_samples_seen / total_seconds
    union all by name
    select
        'step time x steps against time' as kind,
        observation_id,
        'step_time' as metric,
        step_seconds as value,
        total_seconds / n_steps as other_value
    from totals
    where step_seconds > total_seconds / n_steps
    union all by name
    select
        'steps per second against step time' as kind,
        observation_id,
        'steps_per_second' as metric,
        steps_per_second as value,
        1 / step_seconds as other_value
    from speeds
    union all by name
    select
        'samples per second against batch and steps' as kind,
        observation_id,
        'samples_per_second' as metric,
        samples_per_second as value,
        global_batch_size * coalesce(steps_per_second, 1 / step_seconds) as other_value
    from speeds
    union all by name
    -- sequences may be shorter than the length they are cut to, and never longer
    select
        'tokens per second against samples and length' as kind,
        observation_id,
        'tokens_per_second' as metric,
        tokens_per_second as value,
        seq_len * coalesce(
            samples_per_second, global_batch_size * coalesce(steps_per_second, 1 / step_seconds)
        ) as other_value
    from speeds
    where is_full or tokens_per_second > other_value
)
select
    *,
    other_value / nullif(value, 0) as ratio
from compared
-- what is divided by zero is infinite, and infinity exceeds no share of itself
where abs(other_value - value) > 0.02 * greatest(other_value, value)
union all by name
select
    'flagged by the source''s reader' as kind,
    observation_id
from standing
where list_contains(flags, 'figures_disagree')
