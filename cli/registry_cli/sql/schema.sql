-- Tables, views and columns, with their meaning; of one relation, or of all.
select
    table_name as relation,
    column_name as "column",
    lower(data_type) as type,
    comment as meaning
from duckdb_columns()
where not internal
    and table_name not like 'pending\_%' escape '\'
    and table_name not in ('results_folded', 'recited')
    and ($relation is null or table_name = $relation)
order by table_name <> 'results', table_name, column_index
