"""The options that say how a coordinator is spoken to: data for the table of options and for what travels to executors.

They are the settings of `coordinator.client.security`, which reads them; executors, which load this file, do not talk
to coordinators and never get their values. Pure, stdlib only.
"""

from __future__ import annotations

from typing import Final

__all__ = ["SECURITY_OPTIONS"]

SECURITY_OPTIONS: Final = (
    (
        "kcoord.security.protocol",
        "how a coordinator is spoken to: PLAINTEXT (the default), SSL, or with a log-in SASL_PLAINTEXT or SASL_SSL",
    ),
    (
        "kcoord.ssl.ca.location",
        "a PEM file of the certificates by which a coordinator's has to be signed; without it those of the system",
    ),
    ("kcoord.ssl.certificate.location", "a PEM file of the certificate that is shown to a coordinator"),
    ("kcoord.ssl.key.location", "a PEM file of its key; without it the certificate's file has it"),
    ("kcoord.ssl.key.password", "the password of that key"),
    ("kcoord.ssl.key.password.file", "a file that holds it"),
    (
        "kcoord.ssl.endpoint.identification.algorithm",
        "https (the default) compares a coordinator's host name with its certificate; none does not",
    ),
    (
        "kcoord.sasl.mechanism",
        "how this client logs in: SCRAM-SHA-512 (the default with a password), SCRAM-SHA-256, or OAUTHBEARER (the "
        "default with a token)",
    ),
    ("kcoord.sasl.username", "the user that logs in with a password"),
    ("kcoord.sasl.password", "the password of that user"),
    ("kcoord.sasl.password.file", "a file that holds it, read anew for each connection"),
    ("kcoord.auth.token", "the token that this client logs in with"),
    ("kcoord.auth.token.file", "a file that holds it, read anew for each connection"),
)
"""Name and meaning of each."""
