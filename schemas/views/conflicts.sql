-- Figures that do not agree: of like runs, or within one observation.
with alike as (
    select
        'same configuration and environment' as kind,
        a.observation_id,
        b.observation_id as other_observation_id,
        m.metric,
        m.value,
        n.value as other_value,
        n.value / nullif(m.value, 0) as ratio
    from observations as a
    inner join observations as b
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
    where abs(n.value - m.value) > 0.02 * greatest(abs(n.value), abs(m.value))
        and m.metric not in ('train_loss', 'eval_loss', 'accuracy') -- chance, not measurement
),
totals as (
    select
        o.observation_id,
        c.n_samples * coalesce(c.n_epochs, 1) as n_samples,
        max(m.value) filter (m.metric = 'total_time') as total_seconds,
        max(m.value) filter (m.metric = 'samples_per_second' and m.origin = 'reported')
            as samples_per_second,
        max(m.value) filter (m.metric = 'sample_time' and m.origin = 'reported') as sample_seconds
    from observations as o
    inner join configurations as c using (configuration_id)
    inner join measurements as m using (observation_id)
    group by all
),
related as (
    select
        'rate x time against samples' as kind,
        observation_id,
        null as other_observation_id,
        'samples_per_second' as metric,
        samples_per_second as value,
        n_samples / total_seconds as other_value,
        n_samples / total_seconds / samples_per_second as ratio
    from totals
    where abs(n_samples / total_seconds / samples_per_second - 1) > 0.02
    union all
    select
        'time per sample x samples against time',
        observation_id,
        null,
        'sample_time',
        sample_seconds,
        total_seconds / n_samples,
        total_seconds / n_samples / sample_seconds
    from totals
    where abs(total_seconds / n_samples / sample_seconds - 1) > 0.02
),
flagged as (
    select
        'flagged by the source''s reader' as kind,
        observation_id,
        null as other_observation_id,
        null as metric,
        null as value,
        null as other_value,
        null as ratio
    from observations
    where list_contains(flags, 'figures_disagree')
)
select * from alike
union all by name
select * from related
union all by name
select * from flagged
