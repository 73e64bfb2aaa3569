-- The flags of each source's observations.
select
    source_id,
    flag,
    count(*) as n,
    min(observation_id) as example
from (select source_id, observation_id, unnest(flags) as flag from results)
group by source_id, flag
order by source_id, flag
