-- One row per place that reports an observation, with the raw cells.
select
    c.source_id,
    c.locator,
    c.table_title,
    c.row,
    c.column,
    c.cells,
    c.observation_id,
    r.outcome,
    r.evidence,
    r.model_id,
    r.model_reported,
    r.method_label,
    r.gpu_id,
    r.n_gpus,
    r.seq_len,
    r.micro_batch_size,
    r.peak_memory_bytes,
    r.seconds_per_step,
    r.total_seconds,
    r.samples_per_second
from citations as c
inner join results as r on c.observation_id = r.observation_id
