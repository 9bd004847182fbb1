# Locks by names of one's own, as one session sees them.
SELECT IS_FREE_LOCK('a'), IS_USED_LOCK('a'), RELEASE_LOCK('a');
-- [IS_FREE_LOCK('a'), IS_USED_LOCK('a'), RELEASE_LOCK('a')]
-- 1 | NULL | NULL
SELECT GET_LOCK('a', 0), GET_LOCK('A', -1), GET_LOCK('b', NULL);
-- [GET_LOCK('a', 0), GET_LOCK('A', -1), GET_LOCK('b', NULL)]
-- 1 | 1 | 1
SELECT IS_FREE_LOCK('A'), IS_USED_LOCK('A') = CONNECTION_ID();
-- [IS_FREE_LOCK('A'), IS_USED_LOCK('A') = CONNECTION_ID()]
-- 0 | 1
SELECT RELEASE_LOCK('a'), RELEASE_LOCK('a'), RELEASE_LOCK('a');
-- [RELEASE_LOCK('a'), RELEASE_LOCK('a'), RELEASE_LOCK('a')]
-- 1 | 1 | NULL
SELECT GET_LOCK('b', 0);
-- [GET_LOCK('b', 0)]
-- 1
SELECT RELEASE_ALL_LOCKS(), RELEASE_ALL_LOCKS();
-- [RELEASE_ALL_LOCKS(), RELEASE_ALL_LOCKS()]
-- 2 | 0
SELECT IS_FREE_LOCK('b');
-- [IS_FREE_LOCK('b')]
-- 1
DO GET_LOCK('d', 0);
-- ok, 0 rows
SELECT IS_FREE_LOCK('d');
-- [IS_FREE_LOCK('d')]
-- 0
CREATE TABLE t (id INT PRIMARY KEY);
-- ok, 0 rows
INSERT INTO t VALUES (1), (2), (3);
-- ok, 3 rows
# Asked for every row, also in a condition.
SELECT id FROM t WHERE GET_LOCK('rows', 0) = 1 ORDER BY id;
-- [id]
-- 1
-- 2
-- 3
SELECT RELEASE_LOCK('rows') FROM t;
-- [RELEASE_LOCK('rows')]
-- 1
-- 1
-- 1
SELECT RELEASE_LOCK('rows');
-- [RELEASE_LOCK('rows')]
-- NULL
SELECT GET_LOCK(REPEAT('x', 64), 0), RELEASE_LOCK(REPEAT('X', 64));
-- [GET_LOCK(REPEAT('x', 64), 0), RELEASE_LOCK(REPEAT('X', 64))]
-- 1 | 1
SELECT GET_LOCK(REPEAT('x', 65), 0);
-- ERROR 3057 (42000): Incorrect user-level lock name 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx'.
SELECT GET_LOCK(NULL, 0);
-- ERROR 3057 (42000): Incorrect user-level lock name 'NULL'.
SELECT GET_LOCK('', 0);
-- ERROR 3057 (42000): Incorrect user-level lock name ''.
SELECT RELEASE_LOCK('');
-- ERROR 3057 (42000): Incorrect user-level lock name ''.
SELECT IS_FREE_LOCK(NULL);
-- ERROR 3057 (42000): Incorrect user-level lock name 'NULL'.
SELECT IS_USED_LOCK(NULL);
-- ERROR 3057 (42000): Incorrect user-level lock name 'NULL'.
SELECT GET_LOCK('a');
-- ERROR 1582 (42000): Incorrect parameter count in the call to native function 'get_lock'
CREATE TABLE u (id INT, CHECK (IS_FREE_LOCK('a') = id));
-- ERROR 3814 (HY000): An expression of a check constraint 'u_chk_1' contains disallowed function: is_free_lock.
