-- Observations in short, filtered.
select
    observation_id[:12] as id,
    source_id,
    model_id,
    method_label as method,
    gpu_id,
    n_gpus,
    seq_len,
    micro_batch_size as batch,
    outcome,
    peak_memory_bytes / 1073741824 as peak_gib,
    peak_memory_bytes_per_gpu / 1073741824 as peak_gib_per_gpu,
    seconds_per_step,
    samples_per_second,
    nullif(array_to_string(from_json(flags, '["VARCHAR"]'), ', '), '') as flags
from results
/* filters */
order by model_id, method_label, gpu_id, n_gpus, seq_len, micro_batch_size, observation_id
limit $limit
