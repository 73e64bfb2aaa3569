-- How complete and how certain each source's observations are.
with uncertain as (
    select
        observation_id,
        count(*) filter (where low < value or high > value) as n_uncertain,
        count(*) filter (where origin = 'derived') as n_derived,
        count(*) as n_figures
    from measurements
    group by observation_id
),
-- Keys of a JSON object of texts: the ends of texts before a colon. A quote within a text stands
-- behind a backslash (character 92).
inferred as (
    select
        observation_id,
        (length(inferences) - length(replace(inferences, '":', ''))) / 2
        - (length(inferences) - length(replace(inferences, chr(92) || '":', ''))) / 3 as n_inferred
    from observations
)
select
    r.source_id,
    count(*) as n_observations,
    cast(sum(r.n_citations) as bigint) as n_citations,
    count(*) filter (where r.evidence = 'measured') as n_measured,
    count(*) filter (where r.outcome = 'ok') as n_ok,
    count(r.memory_kind) filter (where r.outcome = 'ok') / nullif(count(*) filter (where r.outcome = 'ok'), 0)
        as share_with_memory,
    count(
        coalesce(
            r.seconds_per_step, r.total_seconds, r.samples_per_second, r.tokens_per_second
        )
    ) filter (where r.outcome = 'ok') / nullif(count(*) filter (where r.outcome = 'ok'), 0)
        as share_with_speed,
    count(r.gpu_id) / count(*) as share_with_gpu,
    count(coalesce(r.torch_version, r.framework_version)) / count(*) as share_with_versions,
    cast(coalesce(sum(i.n_inferred), 0) as bigint) as n_inferred_columns,
    cast(coalesce(sum(u.n_uncertain), 0) as bigint) as n_uncertain_figures,
    cast(coalesce(sum(u.n_derived), 0) as bigint) as n_derived_figures,
    cast(coalesce(sum(u.n_figures), 0) as bigint) as n_figures,
    count(*) filter (where cast(o.flags as string) <> '[]') as n_flagged
from results as r
inner join observations as o on r.observation_id = o.observation_id
left join inferred as i on r.observation_id = i.observation_id
left join uncertain as u on r.observation_id = u.observation_id
group by r.source_id
