-- One row per observation with what a prediction compares: setting, architecture, card, figures.
select
    r.*,
    -- What a run takes does not depend on what its samples say: made-up ones count where fine-tuning
    -- is stated.
    r.observation_id in (select observation_id from finetuning) or coalesce(r.objective = 'sft', false)
        as is_finetuning,
    c.param_dtype,
    c.double_quant,
    c.n_steps,
    c.packing,
    c.memory_limit_bytes,
    c.kernels,
    c.tensor_parallel,
    c.pipeline_parallel,
    c.padding_free,
    c.length_distribution,
    c.dataset,
    -- What is evaluated may be longer.
    case
        when not coalesce(array_contains(r.flags, 'includes_evaluation'), false)
            then r.longest_sequence
    end as longest_sample,
    m.family,
    m.model_type,
    m.n_active_params,
    m.n_layers,
    m.hidden_size,
    m.intermediate_size,
    m.gated_mlp,
    m.n_heads,
    m.n_kv_heads,
    m.head_dim,
    m.vocab_size,
    m.layer_embedding_params,
    m.tied_embeddings,
    m.max_positions,
    m.n_experts,
    m.n_experts_active,
    g.name,
    g.vendor,
    case when g.memory_bytes is not null then r.gpu_memory_bytes end as memory_bytes,
    g.memory_bandwidth_bytes_per_second,
    g.peak_flops_fp32,
    g.peak_flops_tf32,
    g.peak_flops_fp16,
    g.peak_flops_bf16,
    g.peak_flops_fp8,
    g.peak_ops_int8
from results as r
inner join observations as o using (observation_id)
inner join configurations as c using (configuration_id)
left join models as m on r.model_id = m.model_id
left join gpus as g on r.gpu_id = g.gpu_id
where
    r.evidence in ('measured', 'claimed')
    and r.outcome in ('ok', 'oom')
    and r.gpu_id is distinct from 'cpu'
    and r.memory_kind is distinct from 'host_rss'
    -- the memory of further models, of pairs of samples, and without logits is not computed
    and coalesce(r.objective not in (
        'dpo', 'orpo', 'kto', 'cpo', 'simpo', 'ppo', 'grpo', 'gkd', 'reward', 'embedding'
    ), true)
    -- what is split within a layer or by layers is another computation
    and coalesce(greatest(
        c.tensor_parallel, c.pipeline_parallel, c.context_parallel, c.expert_parallel
    ), 1) = 1
    -- what moves weights that lie in host memory has buffers of its own: those of ZeRO-3 and FSDP
    -- are computed, those that stream layers or experts are not
    and not (
        coalesce(r.offload in ('params', 'optimizer_and_params'), false)
        and coalesce(r.sharding in ('none', 'ddp', 'device_map'), true)
    )
