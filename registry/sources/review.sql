-- What does not agree or is hard to believe, by source, kind and metric. What a reader flagged is
-- settled by that; of like runs only those count that are further apart than runs repeat.
with found as (
    select * exclude (ratio)
    from conflicts
    where
        kind <> 'flagged by the source''s reader'
        and (
            kind <> 'same configuration and environment'
            or (metric not like 'n\_%' escape '\' and not ratio between 0.6667 and 1.5)
        )
    union all by name
    select *
    from implausible
),
seen as (
    select
        o.source_id,
        f.*,
        f.value / nullif(f.other_value, 0) as share
    from found as f
    inner join observations as o on f.observation_id = o.observation_id
    left join observations as p on f.other_observation_id = p.observation_id
    where
        not coalesce(list_has_any(o.flags, $settling), false)
        and not coalesce(list_has_any(p.flags, $settling), false)
)
select
    source_id,
    kind,
    metric,
    count(*) as n,
    count(distinct observation_id) as n_observations,
    min(share) as least,
    max(share) as most,
    min(observation_id) as example,
    arg_min(other_observation_id, observation_id || coalesce(other_observation_id, '')) as other
from seen
where
    ($source_id is null or source_id = $source_id)
    and ($ids is null or list_contains(string_split($ids, ','), observation_id))
group by all
order by source_id, kind, metric
