-- Labels of recorded runs, the newest first.
select json_extract_string(provenance, '$.label') as label
from observations
where json_extract_string(provenance, '$.label') is not null
group by label
order by max(observed_at) desc, label
