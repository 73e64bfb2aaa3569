-- Labels of recorded runs that were not withdrawn, the newest first.
select json_extract_string(o.provenance, '$.label') as label
from observations as o
where json_extract_string(o.provenance, '$.label') is not null
    and not exists (select 1 from retractions as w where w.observation_id = o.observation_id)
group by label
order by max(o.observed_at) desc, label
