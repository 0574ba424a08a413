-- schema_break.sql: declares that binaries which do not know a step do not work with the schema, in the transaction of the step.
update turnwise_migration set breaks = 1 where version = ?1
