-- One prepared statement that gives one constant row of as many bytes as oltp_point_select's: what clients and servers spend
-- on their connections alone.
sysbench.cmdline.options = {
   tables = {"Not used", 1},
   table_size = {"Not used", 1},
   mysql_storage_engine = {"Not used", "innodb"},
}

function thread_init()
   connection = sysbench.sql.driver():connect()
   statement = connection:prepare("SELECT '" .. string.rep("x", 119) .. "'")
end

function event()
   statement:execute()
end

function thread_done()
   statement:close()
   connection:disconnect()
end
