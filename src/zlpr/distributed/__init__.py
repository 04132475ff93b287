"""The same losses when labels or samples are spread over processes.

Each process holds a slice of the labels, or of the batch; the loss is the one of all, on every
process.
"""

from zlpr.distributed._slices import ProcessLostError
from zlpr.distributed.linear import ShardedLinearZLPRLoss, sharded_linear_zlpr_loss
from zlpr.distributed.samples import BatchOverProcesses, gather_samples
from zlpr.distributed.zlpr import ShardedZLPRLoss, sharded_zlpr_loss

__all__ = [
    "BatchOverProcesses",
    "ProcessLostError",
    "ShardedLinearZLPRLoss",
    "ShardedZLPRLoss",
    "gather_samples",
    "sharded_linear_zlpr_loss",
    "sharded_zlpr_loss",
]
