"""The pages: server-rendered views on the admin API's services. The admin API does not know this room."""
