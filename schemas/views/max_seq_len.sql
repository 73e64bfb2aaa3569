-- Per setting, the longest sequence that fitted and the shortest that ran out of memory.
select
    model_id,
    objective,
    method_label,
    quant_bits,
    gpu_id,
    n_gpus,
    sharding,
    offload,
    micro_batch_size,
    gradient_checkpointing,
    attention,
    lora_rank,
    max(seq_len) filter (where outcome = 'ok') as longest_fitted,
    min(seq_len) filter (where outcome = 'oom') as shortest_oom,
    count(*) as n_observations
from finetuning
where outcome in ('ok', 'oom') and seq_len is not null
    and evidence in ('measured', 'claimed') -- what was computed or required is no run
    and not coalesce(array_contains(flags, 'peak_at_capacity'), false)
group by
    model_id, objective, method_label, quant_bits, gpu_id, n_gpus, sharding, offload, micro_batch_size,
    gradient_checkpointing, attention, lora_rank
