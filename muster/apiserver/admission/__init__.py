"""What a write gets or is refused because of other objects, before it is kept. See docs/admission.md.

`Admission` runs the rules of this folder in order; webhooks are called by `review`.
"""

from muster.apiserver.admission.chain import Admission, Checks, Completion

__all__ = ["Admission", "Checks", "Completion"]
