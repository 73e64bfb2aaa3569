-- Environments as the command described them, in its order.
select
    r.id,
    r.label,
    r.peft,
    r.transformers,
    r.torch,
    nullif(r.others, '') as others,
    nullif(r.machine, '') as machine,
    r.n,
    r.first::date as first,
    r.last::date as last
from (
    select
        unnest(
            from_json(
                $rows,
                '[{"id": "VARCHAR", "label": "VARCHAR", "peft": "VARCHAR",
                   "transformers": "VARCHAR", "torch": "VARCHAR", "others": "VARCHAR",
                   "machine": "VARCHAR", "n": "BIGINT", "first": "TIMESTAMP", "last": "TIMESTAMP"}]'
            )
        ) as r
)
