-- once_answer.sql: writes down what a submit is answered, with the key that its transaction has taken. Locks: the key's row, which this
-- transaction holds. Index: primary key.
update turnwise.once set answers = $3 where caller = $1 and key = $2
