"""The laws of money, one to a file: amounts of USD per month out of prices, hours, bytes, requests and tokens, all `Decimal`."""
