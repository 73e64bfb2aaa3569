-- How complete and how certain each source's observations are.
with uncertain as (
    select
        observation_id,
        count(*) filter (low < value or high > value) as n_uncertain,
        count(*) filter (origin = 'derived') as n_derived,
        count(*) as n_figures
    from measurements
    group by observation_id
)
select
    r.source_id,
    count(*) as n_observations,
    sum(r.n_citations)::bigint as n_citations,
    count(*) filter (r.evidence = 'measured') as n_measured,
    count(*) filter (r.outcome = 'ok') as n_ok,
    count(r.memory_kind) filter (r.outcome = 'ok') / nullif(count(*) filter (r.outcome = 'ok'), 0)
        as share_with_memory,
    count(
        coalesce(
            r.seconds_per_step, r.total_seconds, r.samples_per_second, r.tokens_per_second
        )
    ) filter (r.outcome = 'ok') / nullif(count(*) filter (r.outcome = 'ok'), 0)
        as share_with_speed,
    count(r.gpu_id) / count(*) as share_with_gpu,
    count(coalesce(r.torch_version, r.framework_version)) / count(*) as share_with_versions,
    coalesce(sum(len(json_keys(o.inferences))), 0)::bigint as n_inferred_columns,
    coalesce(sum(u.n_uncertain), 0)::bigint as n_uncertain_figures,
    coalesce(sum(u.n_derived), 0)::bigint as n_derived_figures,
    coalesce(sum(u.n_figures), 0)::bigint as n_figures,
    count(*) filter (len(o.flags) > 0) as n_flagged
from results as r
inner join observations as o using (observation_id)
left join uncertain as u using (observation_id)
group by r.source_id
