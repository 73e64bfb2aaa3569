-- Everything about the observations whose id starts with this.
select
    o as observation,
    c as configuration,
    e as environment,
    s as source,
    (
        select list(m order by m.metric, m.statistic, m.scope, m.device_index, m.kind)
        from measurements as m
        where m.observation_id = o.observation_id
    ) as measurements,
    (
        select list(k order by k.locator)
        from citations as k
        where k.observation_id = o.observation_id
    ) as citations,
    (
        select list(w order by w.retracted_at)
        from retractions as w
        where w.observation_id = o.observation_id
    ) as retractions,
    (select count(*) from samples as p where p.observation_id = o.observation_id) as n_samples
from observations as o
inner join configurations as c on c.configuration_id = o.configuration_id
inner join environments as e on e.environment_id = o.environment_id
left join sources as s on s.source_id = o.source_id
where starts_with(o.observation_id, $id)
order by o.observation_id
limit $most
