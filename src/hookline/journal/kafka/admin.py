"""The client that asks brokers about the topic, and what their answers, or none, mean to who runs Hookline."""

from __future__ import annotations

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from hookline.journal.kafka.address import KafkaAddress
from hookline.journal.port import JournalAway, JournalError

_SILENCE = (KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError._ALL_BROKERS_DOWN)
NOT_ALLOWED = (
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
)


class Admin:
    """``client`` to ask with, and ``told`` for what went wrong."""

    def __init__(self, address: KafkaAddress) -> None:
        self._address = address
        # Of its own, without the way back from the client to this object: a ring would keep the connections open.
        self._refusal = _Refusal(address)
        options = {**address.client(), "error_cb": self._refusal.note}
        self.client = AdminClient(options)

    def told(self, error: KafkaException) -> JournalError:
        """Return the error of the port for one of a call: JournalAway where asking again may help."""
        reason: KafkaError = error.args[0]
        if reason.code() in NOT_ALLOWED:
            return JournalAway(
                f"Kafka does not let {self._address.user} use topic {self._address.topic} ({reason.str()}): allow it"
            )
        if reason.code() not in _SILENCE:
            return JournalError(f"Kafka refused to open topic {self._address.topic}: {reason.str()}")
        self.client.poll(0)  # what brokers said meanwhile; that nothing was heard is all the call itself tells
        return JournalAway(
            self._refusal.reason
            or f"no Kafka broker answers at {self._address.servers}: start them, or correct journal.url"
        )

    def forget(self) -> None:
        """Brokers answer: what they said before is over."""
        self.client.poll(0)
        self._refusal.reason = ""


class _Refusal:
    """Why brokers turn a client away; kept until they answer, for the client tells the same only twice a minute."""

    def __init__(self, address: KafkaAddress) -> None:
        self.reason = ""
        self._address = address

    def note(self, error: KafkaError) -> None:
        """Take what a broker, or the way to it, made of the client."""
        self.reason = self._reason(error) or self.reason

    def _reason(self, error: KafkaError) -> str:
        said, code = error.str().partition(" (after ")[0], error.code()
        if code == KafkaError._AUTHENTICATION:
            user, mechanism = self._address.access.sasl_username, self._address.access.sasl_mechanism
            said = said.partition("error: ")[2] or said
            return (
                f"Kafka refuses the user {user} with {mechanism} ({said}): correct journal.sasl_mechanism,"
                " journal.sasl_username or journal.sasl_password"
            )
        if code == KafkaError._SSL and "certificate verify failed" in said:
            return (
                f"the certificate of the brokers at {self._address.servers} is not to be trusted: set"
                " journal.tls_ca_file to who issued it, and name brokers in journal.url as it names them"
            )
        if "alert" in said and ("certificate" in said or "unknown ca" in said):
            return (
                "Kafka refuses the client's certificate, or that there is none: correct journal.tls_certificate_file"
                " and journal.tls_key_file"
            )
        if code == KafkaError._SSL or "SSL handshake failed" in said:
            return (
                f"no TLS with the brokers at {self._address.servers} ({said.partition(': ')[2]}): name the port that"
                " speaks TLS in journal.url, or set journal.tls to false"
            )
        return ""
