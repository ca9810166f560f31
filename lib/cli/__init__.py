"""The command line: the same questions as the page and the API, in process, with the login of the machine it runs on."""
