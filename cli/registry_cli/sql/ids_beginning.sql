-- A few ids of observations that start with this, as a suggestion.
select observation_id[:12] as id
from observations
where starts_with(observation_id, $begin)
order by id
limit 3
