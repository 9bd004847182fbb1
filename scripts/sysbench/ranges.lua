-- Ranges of rows by the primary key and by an index, and whole tables: one kind of query again and again.

sysbench.cmdline.options = {
   rows = {"Rows of the table", 100000},
   kind = {"Which query", "columns"},
   size = {"Rows of a range", 100},
   engine = {"Storage engine", "innodb"},
}

-- The keys in the index are the numbers from 1 on, each once, far from the rows beside each other.
local STEP = 7919

local QUERIES = {
   columns = "SELECT c FROM ranges WHERE id BETWEEN ? AND ?",
   sum = "SELECT SUM(k) FROM ranges WHERE id BETWEEN ? AND ?",
   order = "SELECT c FROM ranges WHERE id BETWEEN ? AND ? ORDER BY c",
   distinct = "SELECT DISTINCT c FROM ranges WHERE id BETWEEN ? AND ? ORDER BY c",
   covered = "SELECT k, id FROM ranges WHERE k BETWEEN ? AND ?",
   count = "SELECT COUNT(k) FROM ranges WHERE k BETWEEN ? AND ?",
   looked_up = "SELECT c FROM ranges WHERE k BETWEEN ? AND ?",
   scan = "SELECT SUM(k) FROM ranges IGNORE INDEX (k_1) WHERE pad <> ''",
   count_all = "SELECT COUNT(*) FROM ranges",
}

function cmd_prepare()
   local connection = sysbench.sql.driver():connect()
   connection:query("DROP TABLE IF EXISTS ranges")
   connection:query("CREATE TABLE ranges (id INT PRIMARY KEY, k INT NOT NULL, c CHAR(120) NOT NULL, " ..
                       "pad CHAR(60) NOT NULL, KEY k_1 (k)) ENGINE=" .. sysbench.opt.engine)
   connection:bulk_insert_init("INSERT INTO ranges (id, k, c, pad) VALUES")
   for id = 1, sysbench.opt.rows do
      local c = sysbench.rand.string(string.rep("###########-", 9) .. "###########")
      local pad = sysbench.rand.string(string.rep("###########-", 4) .. "###########")
      connection:bulk_insert_next(("(%d, %d, '%s', '%s')"):format(id, id * STEP % sysbench.opt.rows + 1, c, pad))
   end
   connection:bulk_insert_done()
end

sysbench.cmdline.commands = {
   prepare = {cmd_prepare, sysbench.cmdline.PARALLEL_COMMAND},
}

function thread_init()
   connection = sysbench.sql.driver():connect()
   local query = QUERIES[sysbench.opt.kind] or error("no such kind of query")
   statement = connection:prepare(query)
   first, last = nil, nil
   if query:find("?", 1, true) then
      first = statement:bind_create(sysbench.sql.type.INT)
      last = statement:bind_create(sysbench.sql.type.INT)
      statement:bind_param(first, last)
   end
end

function thread_done()
   statement:close()
   connection:disconnect()
end

function event()
   if first then
      local from = sysbench.rand.uniform(1, sysbench.opt.rows - sysbench.opt.size + 1)
      first:set(from)
      last:set(from + sysbench.opt.size - 1)
   end
   local answer = statement:execute()
   for _ = 1, answer.nrows do answer:fetch_row() end
   answer:free()
end
