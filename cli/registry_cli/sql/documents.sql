-- Documents as they were submitted, those that describe models or GPUs first.
select
    document,
    n_observations
from submissions
where $label is null
    or list_contains(
        json_extract_string(document, '$.observations[*].provenance.label'), $label
    )
order by json_extract_string(document, '$.models') is null, submission_id
