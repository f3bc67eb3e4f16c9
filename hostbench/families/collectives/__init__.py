"""collectives: the operations of torch.distributed, and what is asked of them."""
