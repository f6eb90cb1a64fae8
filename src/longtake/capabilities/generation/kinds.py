"""The names of generation's job kinds."""

SUBMIT = "generation.submit"
POLL = "generation.poll"
ATTACH = "generation.attach"
SWEEP = "generation.sweep"
CHECK = "generation.check"
PRUNE = "generation.prune"
DELETE_ACCOUNT = "generation.delete_account"
#: Those that are about one task: their subject is its id.
OF_A_TASK = (SUBMIT, POLL, ATTACH)
