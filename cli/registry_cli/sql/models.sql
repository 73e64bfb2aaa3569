-- One line for each model of the catalogue: what it is, and what the records hold of it.
select
    m.model_id,
    m.family,
    m.n_params,
    m.n_layers,
    coalesce(c.n, 0) as n,
    coalesce(c.n_oom, 0) as n_oom,
    coalesce(c.n_sources, 0) as n_sources,
    c.longest as longest_fitted,
    l.others as gpu_ids,
    l.methods,
    m.hf_id
from models as m
left join counted as c on m.model_id = c.thing
left join listed as l on m.model_id = l.thing
where ($family is null or m.family = $family) and (not $recorded or c.n > 0)
order by m.family, m.n_params, m.model_id
