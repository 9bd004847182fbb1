-- Every client adds one to a counter, again and again, each time as a statement that commits by itself: all to the
-- same row, or each time to another of the table's rows.

sysbench.cmdline.options = {
   rows = {"Rows of the table", 1000000},
   spread = {"Take a random row each time instead of the first", false},
   engine = {"Storage engine", "innodb"},
}

function cmd_prepare()
   local connection = sysbench.sql.driver():connect()
   connection:query("DROP TABLE IF EXISTS hot_row")
   connection:query("CREATE TABLE hot_row (id INT PRIMARY KEY, c BIGINT NOT NULL, pad CHAR(60) NOT NULL) ENGINE=" ..
                       sysbench.opt.engine)
   connection:bulk_insert_init("INSERT INTO hot_row (id, c, pad) VALUES")
   for id = 1, sysbench.opt.rows do
      connection:bulk_insert_next("(" .. id .. ", 0, 'seat " .. id .. "')")
   end
   connection:bulk_insert_done()
end

sysbench.cmdline.commands = {
   prepare = {cmd_prepare, sysbench.cmdline.PARALLEL_COMMAND},
}

function thread_init()
   connection = sysbench.sql.driver():connect()
   statement = connection:prepare("UPDATE hot_row SET c = c + 1 WHERE id = ?")
   id = statement:bind_create(sysbench.sql.type.INT)
   statement:bind_param(id)
end

function thread_done()
   statement:close()
   connection:disconnect()
end

function event()
   id:set(sysbench.opt.spread and sysbench.rand.uniform(1, sysbench.opt.rows) or 1)
   statement:execute()
end
