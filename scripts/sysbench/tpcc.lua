-- TPC-C's five transactions in the standard's mix (clause 5.2.3: 45, 43, 4, 4, 4), each begun anew until it commits. A database begins
-- without orders. Each thread says in the end, for each kind of transaction: how many committed, and how many attempts were
-- ended by a deadlock or a conflict (1213, 1020) and by a lock's timeout (1205).

sysbench.cmdline.options = {
   warehouses = {"Warehouses", 2},
   items = {"Items", 100000},
   customers = {"Customers of each district", 3000},
   engine = {"Storage engine", "innodb"},
   snapshot_isolation = {"innodb_snapshot_isolation: ON, OFF, or empty for the server's default", ""},
}

local DISTRICTS = 10
local SYLLABLES = {"BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"}

local function last_name(number)
   return SYLLABLES[math.floor(number / 100) % 10 + 1] .. SYLLABLES[math.floor(number / 10) % 10 + 1] .. SYLLABLES[number % 10 + 1]
end

local TABLES = {
   [[warehouse (w_id INT PRIMARY KEY, w_name VARCHAR(10), w_street VARCHAR(20), w_city VARCHAR(20), w_tax DECIMAL(4,4), w_ytd DECIMAL(12,2))]],
   [[district (d_w_id INT, d_id INT, d_name VARCHAR(10), d_street VARCHAR(20), d_tax DECIMAL(4,4), d_ytd DECIMAL(12,2),
     d_next_o_id INT, PRIMARY KEY (d_w_id, d_id))]],
   [[customer (c_w_id INT, c_d_id INT, c_id INT, c_first VARCHAR(16), c_last VARCHAR(16), c_credit CHAR(2), c_discount DECIMAL(4,4),
     c_balance DECIMAL(12,2), c_ytd_payment DECIMAL(12,2), c_payment_cnt INT, c_delivery_cnt INT, c_data VARCHAR(250),
     PRIMARY KEY (c_w_id, c_d_id, c_id), KEY by_name (c_w_id, c_d_id, c_last, c_first))]],
   [[history (h_c_id INT, h_c_d_id INT, h_c_w_id INT, h_d_id INT, h_w_id INT, h_date DATETIME, h_amount DECIMAL(6,2))]],
   [[new_orders (no_w_id INT, no_d_id INT, no_o_id INT, PRIMARY KEY (no_w_id, no_d_id, no_o_id))]],
   [[orders (o_w_id INT, o_d_id INT, o_id INT, o_c_id INT, o_entry_d DATETIME, o_carrier_id INT, o_ol_cnt INT,
     PRIMARY KEY (o_w_id, o_d_id, o_id), KEY by_customer (o_w_id, o_d_id, o_c_id, o_id))]],
   [[order_line (ol_w_id INT, ol_d_id INT, ol_o_id INT, ol_number INT, ol_i_id INT, ol_supply_w_id INT, ol_delivery_d DATETIME,
     ol_quantity INT, ol_amount DECIMAL(6,2), PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number))]],
   [[stock (s_w_id INT, s_i_id INT, s_quantity INT, s_dist CHAR(24), s_ytd INT, s_order_cnt INT, s_data VARCHAR(50), PRIMARY KEY (s_w_id, s_i_id))]],
   [[item (i_id INT PRIMARY KEY, i_name VARCHAR(24), i_price DECIMAL(5,2), i_data VARCHAR(50))]],
}

local function fill(con, into, rows)
   con:bulk_insert_init("INSERT INTO " .. into .. " VALUES")
   rows(function(format, ...) con:bulk_insert_next(string.format("(" .. format .. ")", ...)) end)
   con:bulk_insert_done()
end

function cmd_prepare()
   local opt, con = sysbench.opt, sysbench.sql.driver():connect()
   for _, definition in ipairs(TABLES) do
      con:query("DROP TABLE IF EXISTS " .. definition:match("^[a-z_]+"))
      con:query("CREATE TABLE " .. definition .. " ENGINE=" .. opt.engine)
   end
   fill(con, "item", function(row)
      for i = 1, opt.items do row("%d, 'item %d', %d.%02d, 'of some kind %d'", i, i, 1 + i % 100, i % 100, i) end
   end)
   for w = 1, opt.warehouses do
      con:query(string.format("INSERT INTO warehouse VALUES (%d, 'house %d', 'street', 'city', 0.1%d, 300000)", w, w, w))
      fill(con, "stock", function(row)
         for i = 1, opt.items do row("%d, %d, %d, 'district information', 0, 0, 'stock of some kind'", w, i, 10 + i % 91) end
      end)
      for d = 1, DISTRICTS do
         con:query(string.format("INSERT INTO district VALUES (%d, %d, 'district', 'street', 0.0%d, 30000, 1)", w, d, d))
         fill(con, "customer", function(row)
            for c = 1, opt.customers do
               row("%d, %d, %d, 'first %d', '%s', 'GC', 0.1, -10, 10, 1, 0, '%s'", w, d, c, c, last_name((c - 1) % 1000), string.rep("x", 200))
            end
         end)
      end
   end
end

sysbench.cmdline.commands = {prepare = {cmd_prepare, sysbench.cmdline.PARALLEL_COMMAND}}

local con, counts, last_errno
local KINDS = {"new_order", "payment", "order_status", "delivery", "stock_level"}

function sysbench.hooks.sql_error_ignorable(err)
   last_errno = err.sql_errno
   return true
end

function thread_init()
   con = sysbench.sql.driver():connect()
   counts = {}
   for _, kind in ipairs(KINDS) do counts[kind] = {commits = 0, conflicts = 0, timeouts = 0} end
   con:query("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
   if sysbench.opt.snapshot_isolation ~= "" then
      con:query("SET innodb_snapshot_isolation = " .. sysbench.opt.snapshot_isolation)
   end
end

function thread_done()
   for kind, count in pairs(counts) do
      print(string.format("counted %s %d %d %d", kind, count.commits, count.conflicts, count.timeouts))
   end
   con:disconnect()
end

local function run(format, ...) return con:query(string.format(format, ...)) end
local function rows(format, ...)
   local all, result = {}, run(format, ...)
   for _ = 1, result.nrows do all[#all + 1] = result:fetch_row() end
   return all
end
local function row(format, ...) return rows(format, ...)[1] end

-- What clause 2.1.6 calls NURand.
local function nu_rand(a, x, y)
   local uniform = sysbench.rand.uniform
   return (bit.bor(uniform(0, a), uniform(x, y)) + 7) % (y - x + 1) + x
end
local function any_customer() return nu_rand(1023, 1, sysbench.opt.customers) end
local function any_name() return last_name(nu_rand(255, 0, math.min(999, sysbench.opt.customers - 1))) end

-- A customer, by name where one is given.
local function customer_of(w, d, c, name)
   if not name then return c end
   local found = rows("SELECT c_id FROM customer WHERE c_w_id=%d AND c_d_id=%d AND c_last='%s' ORDER BY c_first", w, d, name)
   return tonumber(found[math.ceil(#found / 2)][1])
end

local transactions = {}

function transactions.new_order(w, d, c, _, lines)
   row("SELECT c_discount, c_last, c_credit, w_tax FROM customer, warehouse WHERE w_id=%d AND c_w_id=w_id AND c_d_id=%d AND c_id=%d", w, d, c)
   local o = tonumber(row("SELECT d_next_o_id, d_tax FROM district WHERE d_w_id=%d AND d_id=%d FOR UPDATE", w, d)[1])
   run("UPDATE district SET d_next_o_id=%d WHERE d_w_id=%d AND d_id=%d", o + 1, w, d)
   run("INSERT INTO orders VALUES (%d, %d, %d, %d, NOW(), NULL, %d)", w, d, o, c, #lines)
   run("INSERT INTO new_orders VALUES (%d, %d, %d)", w, d, o)
   for number, line in ipairs(lines) do
      local price = tonumber(row("SELECT i_price, i_name, i_data FROM item WHERE i_id=%d", line.item)[1])
      local stock = row("SELECT s_quantity, s_data, s_dist FROM stock WHERE s_w_id=%d AND s_i_id=%d FOR UPDATE", line.from, line.item)
      local left = tonumber(stock[1]) - line.quantity
      run("UPDATE stock SET s_quantity=%d, s_ytd=s_ytd+%d, s_order_cnt=s_order_cnt+1 WHERE s_w_id=%d AND s_i_id=%d",
          left < 10 and left + 91 or left, line.quantity, line.from, line.item)
      run("INSERT INTO order_line VALUES (%d, %d, %d, %d, %d, %d, NULL, %d, %.2f)", w, d, o, number, line.item, line.from, line.quantity,
          price * line.quantity)
   end
end

function transactions.payment(w, d, c, name, _, amount)
   run("UPDATE warehouse SET w_ytd=w_ytd+%.2f WHERE w_id=%d", amount, w)
   row("SELECT w_name, w_street, w_city FROM warehouse WHERE w_id=%d", w)
   run("UPDATE district SET d_ytd=d_ytd+%.2f WHERE d_w_id=%d AND d_id=%d", amount, w, d)
   row("SELECT d_name, d_street FROM district WHERE d_w_id=%d AND d_id=%d", w, d)
   c = customer_of(w, d, c, name)
   local found = row("SELECT c_first, c_last, c_credit, c_discount, c_balance FROM customer WHERE c_w_id=%d AND c_d_id=%d AND c_id=%d FOR UPDATE", w, d, c)
   run("UPDATE customer SET c_balance=%.2f, c_ytd_payment=c_ytd_payment+%.2f, c_payment_cnt=c_payment_cnt+1 WHERE c_w_id=%d AND c_d_id=%d AND c_id=%d",
       tonumber(found[5]) - amount, amount, w, d, c)
   run("INSERT INTO history VALUES (%d, %d, %d, %d, %d, NOW(), %.2f)", c, d, w, d, w, amount)
end

function transactions.order_status(w, d, c, name)
   c = customer_of(w, d, c, name)
   row("SELECT c_balance, c_first, c_last FROM customer WHERE c_w_id=%d AND c_d_id=%d AND c_id=%d", w, d, c)
   local last = row("SELECT o_id, o_carrier_id, o_entry_d FROM orders WHERE o_w_id=%d AND o_d_id=%d AND o_c_id=%d ORDER BY o_id DESC LIMIT 1", w, d, c)
   if last then
      rows("SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM order_line WHERE ol_w_id=%d AND ol_d_id=%d AND ol_o_id=%d", w, d, tonumber(last[1]))
   end
end

function transactions.delivery(w)
   for d = 1, DISTRICTS do
      local first = row("SELECT no_o_id FROM new_orders WHERE no_w_id=%d AND no_d_id=%d ORDER BY no_o_id LIMIT 1 FOR UPDATE", w, d)
      if first then
         local o = tonumber(first[1])
         run("DELETE FROM new_orders WHERE no_w_id=%d AND no_d_id=%d AND no_o_id=%d", w, d, o)
         -- The order may be newer than the snapshot of plain reads, as the row of new_orders may.
         local c = tonumber(row("SELECT o_c_id FROM orders WHERE o_w_id=%d AND o_d_id=%d AND o_id=%d FOR UPDATE", w, d, o)[1])
         run("UPDATE orders SET o_carrier_id=7 WHERE o_w_id=%d AND o_d_id=%d AND o_id=%d", w, d, o)
         run("UPDATE order_line SET ol_delivery_d=NOW() WHERE ol_w_id=%d AND ol_d_id=%d AND ol_o_id=%d", w, d, o)
         local sum = row("SELECT SUM(ol_amount) FROM order_line WHERE ol_w_id=%d AND ol_d_id=%d AND ol_o_id=%d", w, d, o)[1]
         run("UPDATE customer SET c_balance=c_balance+%s, c_delivery_cnt=c_delivery_cnt+1 WHERE c_w_id=%d AND c_d_id=%d AND c_id=%d", sum, w, d, c)
      end
   end
end

function transactions.stock_level(w, d)
   local next = tonumber(row("SELECT d_next_o_id FROM district WHERE d_w_id=%d AND d_id=%d", w, d)[1])
   row("SELECT COUNT(DISTINCT s_i_id) FROM order_line, stock WHERE ol_w_id=%d AND ol_d_id=%d AND ol_o_id<%d AND ol_o_id>=%d AND s_w_id=ol_w_id AND s_i_id=ol_i_id AND s_quantity<15",
       w, d, next, next - 20)
end

-- A new order's lines, without an item twice and in the order of their stocks, so that no two orders wait for each other.
local function some_lines(w)
   local uniform, lines, taken = sysbench.rand.uniform, {}, {}
   for _ = 1, uniform(5, 15) do
      local item = nu_rand(8191, 1, sysbench.opt.items)
      local from = w
      if uniform(1, 100) == 1 and sysbench.opt.warehouses > 1 then from = w % sysbench.opt.warehouses + 1 end
      if not taken[item] then
         taken[item] = true
         lines[#lines + 1] = {item = item, from = from, quantity = uniform(1, 10)}
      end
   end
   table.sort(lines, function(a, b) return a.from < b.from or (a.from == b.from and a.item < b.item) end)
   return lines
end

function event()
   local uniform = sysbench.rand.uniform
   local roll = uniform(1, 100)
   local kind = KINDS[roll <= 45 and 1 or roll <= 88 and 2 or roll <= 92 and 3 or roll <= 96 and 4 or 5]
   local w, d, c = uniform(1, sysbench.opt.warehouses), uniform(1, DISTRICTS), any_customer()
   local name = uniform(1, 100) <= 60 and any_name() or nil
   local lines, amount = some_lines(w), uniform(100, 500000) / 100
   local count = counts[kind]
   while true do
      last_errno = nil
      local done, why = pcall(function()
         con:query("BEGIN")
         transactions[kind](w, d, c, name, lines, amount)
         con:query("COMMIT")
      end)
      if done then
         count.commits = count.commits + 1
         return
      end
      if last_errno == 1213 or last_errno == 1020 then
         count.conflicts = count.conflicts + 1
      elseif last_errno == 1205 then
         count.timeouts = count.timeouts + 1
      else
         error(string.format("%s (error %s)", why, tostring(last_errno)))
      end
      pcall(function() con:query("ROLLBACK") end)
   end
end
