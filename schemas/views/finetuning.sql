-- Runs that fine-tune a model on real data: no pretraining, no reinforcement learning, no made-up
-- samples. What a source does not state is taken for fine-tuning on real data.
select *
from results
where coalesce(objective not in ('pretrain', 'ppo', 'grpo'), true)
    and data is distinct from 'synthetic'
