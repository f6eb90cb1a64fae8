"""What operators need of webhooks: their secrets are sealed again with all others."""

from longtake.actions import Operator
from longtake.services.webhooks.signatures import reseal_secrets

OPERATOR = Operator(resealers=[reseal_secrets])
