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
    seconds_per_step,
    samples_per_second,
    nullif(array_to_string(from_json(flags, '["VARCHAR"]'), ', '), '') as flags
from results
where ($model is null or model_id = $model)
    and ($gpus is null or gpu_id in (select unnest(string_split($gpus, ','))))
    and ($method is null or method = $method or lower(method_label) = lower($method))
    and ($source is null or source_id = $source)
    and ($outcome is null or outcome = $outcome)
    and ($seq_len is null or seq_len = $seq_len)
order by model_id, method_label, gpu_id, n_gpus, seq_len, micro_batch_size, observation_id
limit $limit
