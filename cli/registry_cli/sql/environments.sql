-- Environments and releases of what was observed, with the number and dates of their observations;
-- what was withdrawn does not count.
select
    o.environment_id,
    json_extract_string(o.provenance, '$.label') as label,
    any_value(e) as environment,
    list(distinct c.gpu_id order by c.gpu_id) filter (c.gpu_id is not null) as gpu_ids,
    count(*) as n_observations,
    min(o.observed_at) as first_at,
    max(o.observed_at) as last_at
from observations as o
inner join environments as e on e.environment_id = o.environment_id
inner join configurations as c on c.configuration_id = o.configuration_id
where not exists (select 1 from retractions as w where w.observation_id = o.observation_id)
    and ($source is null or o.source_id = $source)
    and ($label is null or json_extract_string(o.provenance, '$.label') = $label)
group by o.environment_id, label
order by last_at desc nulls last, label, o.environment_id
