-- Columns as the command described them, in its order.
select
    r.relation,
    r."column",
    r.type,
    r.unit,
    r.meaning
from (
    select
        unnest(
            from_json(
                $rows,
                '[{"relation": "VARCHAR", "column": "VARCHAR", "type": "VARCHAR",
                   "unit": "VARCHAR", "meaning": "VARCHAR"}]'
            )
        ) as r
)
