-- Columns as the command described them, in its order.
select
    r.relation,
    r."column",
    r.type,
    r.unit,
    r.meaning,
    r."values"
from (
    select
        unnest(
            from_json(
                $rows,
                '[{"relation": "VARCHAR", "column": "VARCHAR", "type": "VARCHAR",
                   "unit": "VARCHAR", "meaning": "VARCHAR", "values": "VARCHAR"}]'
            )
        ) as r
)
