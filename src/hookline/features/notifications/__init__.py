"""Notifications: rules that send notices to people, by e-mail, Slack or webhook, one message for one outage."""
