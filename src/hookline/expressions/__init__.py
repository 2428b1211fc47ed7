"""The one small expression language of filters and audiences: text, tree, closure. It knows no events."""
