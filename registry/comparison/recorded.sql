-- Observations as the runner needs them, with figures and samples, that a word selects.
select
    o.observation_id,
    o.source_id,
    o.outcome,
    o.observed_at,
    o.flags,
    o.inferences,
    o.provenance,
    c as configuration,
    e as environment,
    m as model,
    (
        select list(f) from measurements as f where f.observation_id = o.observation_id
    ) as measurements,
    (
        select list({'step': p.step, 'seconds': p.seconds, 'warmup': p.warmup} order by p.step)
        from samples as p
        where p.observation_id = o.observation_id
    ) as samples,
    (
        select max_by(w.reason, w.retracted_at) from retractions as w
        where w.observation_id = o.observation_id
    ) as withdrawn
from observations as o
inner join configurations as c on c.configuration_id = o.configuration_id
inner join environments as e on e.environment_id = o.environment_id
left join models as m on m.model_id = c.model_id
where (
    starts_with(o.observation_id, $prefix)
    or starts_with(o.environment_id, $prefix)
    or o.source_id = $word
    or json_extract_string(o.provenance, '$.label') = $label
    or (
        $package is not null
        and starts_with(
            -- 2.7.1 is 2.7.1+cu126 too, and not 2.7.10
            replace(coalesce(
                json_extract_string(to_json(e), '$.' || $package || '_version'),
                json_extract_string(e.packages, '$.' || $package)
            ), '+', '.+') || '.',
            replace($version, '+', '.+') || '.'
        )
    )
    or list_contains(string_split($observation_ids, ','), o.observation_id)
    or (
        $trial_ids is not null
        and list_contains(
            string_split($trial_ids, ','), json_extract_string(o.provenance, '$.spec.trial_id')
        )
    )
)
order by o.observed_at, o.observation_id
