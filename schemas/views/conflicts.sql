-- Figures that do not agree: of like runs, or within one observation.
with standing as (
    select *
    from observations
    where observation_id not in (select observation_id from retractions)
),
totals as (
    select
        m.observation_id,
        c.n_samples * c.n_epochs as n_samples, -- epochs that are not stated are not taken for one
        arg_min(m.value, list_position(['median', 'value', 'mean'], m.statistic))
            filter (m.metric = 'total_time') as total_seconds,
        arg_min(m.value, list_position(['median', 'value', 'mean'], m.statistic))
            filter (m.metric = 'samples_per_second') as samples_per_second,
        arg_min(m.value, list_position(['median', 'value', 'mean'], m.statistic))
            filter (m.metric = 'sample_time') as sample_seconds
    from standing as o
    inner join configurations as c using (configuration_id)
    inner join measurements as m using (observation_id)
    where m.origin = 'reported' and m.scope = 'total'
    group by all
),
compared as (
    select
        'same configuration and environment' as kind,
        a.observation_id,
        b.observation_id as other_observation_id,
        m.metric,
        m.value,
        n.value as other_value
    from standing as a
    inner join standing as b
        on a.configuration_id = b.configuration_id
        and a.environment_id = b.environment_id
        and a.observation_id < b.observation_id
    inner join measurements as m on m.observation_id = a.observation_id
    inner join measurements as n
        on n.observation_id = b.observation_id
        and n.metric = m.metric
        and n.statistic = m.statistic
        and n.scope = m.scope
        and n.kind is not distinct from m.kind
        and n.device_index is not distinct from m.device_index
    where m.metric not in ('train_loss', 'eval_loss', 'accuracy') -- chance, not measurement
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
