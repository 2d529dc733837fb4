"""How text is cleaned before it is cut into pieces."""

NUMBER_TOKEN = "#NUM#"
