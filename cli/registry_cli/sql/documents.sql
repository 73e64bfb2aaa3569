-- Documents as they were submitted, those that describe models or GPUs first.
select
    document,
    -- a document is one piece: with a run of the label come those that it reports beside it
    n_observations - len(list_filter(
        json_extract_string(document, '$.observations[*].provenance.label'), one -> one = $label
    )) as n_beside
from submissions
where $label is null
    or list_contains(
        json_extract_string(document, '$.observations[*].provenance.label'), $label
    )
order by json_extract_string(document, '$.models') is null, submission_id
