-- Per setting, the longest sequence that fitted and the shortest that ran out of memory.
select
    r.model_id,
    r.objective,
    r.method_label,
    r.quant_bits,
    r.compute_dtype,
    r.gpu_id,
    r.n_gpus,
    r.sharding,
    r.offload,
    r.micro_batch_size,
    r.gradient_checkpointing,
    r.attention,
    r.lora_rank,
    c.param_dtype,
    c.tensor_parallel,
    c.pipeline_parallel,
    max(coalesce(r.longest_sequence, r.seq_len)) filter (where r.outcome = 'ok') as longest_fitted,
    min(coalesce(r.longest_sequence, r.seq_len)) filter (where r.outcome = 'oom') as shortest_oom,
    count(*) as n_observations
from finetuning as r
left join gpus as g on r.gpu_id = g.gpu_id
inner join observations as o on r.observation_id = o.observation_id
inner join configurations as c on o.configuration_id = c.configuration_id
where r.outcome in ('ok', 'oom') and r.seq_len is not null
    and r.evidence in ('measured', 'claimed') -- what was computed or required is no run
    and not coalesce(array_contains(r.flags, 'peak_at_capacity'), false)
    -- a run that was allowed less of its card says nothing of what the card can do
    and coalesce(r.gpu_memory_bytes, 0) = coalesce(g.memory_bytes, 0)
group by
    r.model_id, r.objective, r.method_label, r.quant_bits, r.compute_dtype, r.gpu_id, r.n_gpus,
    r.sharding, r.offload, r.micro_batch_size, r.gradient_checkpointing, r.attention, r.lora_rank,
    c.param_dtype, c.tensor_parallel, c.pipeline_parallel
