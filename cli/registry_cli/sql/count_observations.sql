-- Observations, each once, in however many documents it is; with a label, its own.
select count(*) as n
from observations
where $label is null or json_extract_string(provenance, '$.label') = $label
