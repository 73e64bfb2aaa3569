-- One line for each accelerator of the catalogue: what it is, and what the records hold of it.
select
    g.gpu_id,
    g.vendor,
    g.architecture,
    g.released,
    g.memory_bytes / 1073741824 as memory_gib,
    coalesce(c.n, 0) as n,
    coalesce(c.n_oom, 0) as n_oom,
    coalesce(c.n_sources, 0) as n_sources,
    l.others as model_ids,
    l.methods,
    g.name
from gpus as g
left join counted as c on g.gpu_id = c.thing
left join listed as l on g.gpu_id = l.thing
where ($vendor is null or g.vendor = $vendor)
    and ($memory is null or g.memory_bytes >= $memory)
    and (not $recorded or c.n > 0)
order by g.vendor, g.memory_bytes nulls first, g.gpu_id
