-- Tables, views and their columns; of one relation, or of all.
select
    table_name as relation,
    column_name as "column",
    lower(data_type) as type
from duckdb_columns()
where not internal
    and not regexp_matches(table_name, '^(pending|own|curated)_') -- pieces of the tables
    and table_name <> 'later_citations'
    and ($relation is null or table_name = $relation)
order by table_name <> 'results', table_name, column_index
