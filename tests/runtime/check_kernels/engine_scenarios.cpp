// SPDX-License-Identifier: Apache-2.0
// Scenarios that drive the check engine directly, without kernels: each is a short sequence of announcements.
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "twin/check.h"

using namespace gaf_twin;
using namespace gaf_twin::check;
using AscendC::Hardware;

namespace {

constexpr int AIV_ONLY = 0, MIX_1_2 = 5;
constexpr uint64_t GM_BYTES = 1 << 16;

// Memory of one machine with up to 6 cores, and the names that scenarios use.
struct Machine {
    struct CoreMemory {
        std::vector<uint8_t> bytes;
        std::vector<Arena> arenas;
    };
    std::vector<CoreMemory> memory{6};
    std::vector<uint8_t> in = std::vector<uint8_t>(GM_BYTES), out = in, ws = in;
    uint8_t* ub = nullptr;   // of the current core
    uint8_t* l1 = nullptr;
    uint8_t* l0a = nullptr;
    uint8_t* l0c = nullptr;
    int core = 0;

    explicit Machine(int kernelType = AIV_ONLY, uint32_t blocks = 2, GmRole outRole = GmRole::IN_OUT)
    {
        launchBegin("scenario", blocks, kernelType);
        gmBind(in.data(), GM_BYTES, "in", GmRole::INPUT);
        gmBind(out.data(), GM_BYTES, "out", outRole);
        gmBind(ws.data(), GM_BYTES, "workspace", GmRole::WORKSPACE);
    }
    ~Machine() { launchEnd(); }

    int begin(CoreKind kind, uint32_t block, uint32_t sub = 0)
    {
        CoreMemory& m = memory.at(block * 3 + (kind == CoreKind::AIC ? 0 : 1 + sub));
        const Hardware all[] = {Hardware::UB, Hardware::L1, Hardware::L0A, Hardware::L0B, Hardware::L0C};
        size_t total = 512;
        for (Hardware h : all) {
            total += BytesOf(h);
        }
        m.bytes.resize(total);
        m.arenas.clear();
        uint8_t* at = m.bytes.data() + (512 - reinterpret_cast<uintptr_t>(m.bytes.data()) % 512);
        for (Hardware h : all) {
            m.arenas.push_back(Arena{at, BytesOf(h), h});
            at += BytesOf(h);
        }
        int number = coreBegin(kind, block, sub, m.arenas.data(), static_cast<uint32_t>(m.arenas.size()));
        use(number, m);
        return number;
    }
    void use(int number, CoreMemory& m)
    {
        core = number;
        ub = m.arenas[0].base;
        l1 = m.arenas[1].base;
        l0a = m.arenas[2].base;
        l0c = m.arenas[4].base;
    }
    void on(int number, CoreKind kind, uint32_t block, uint32_t sub = 0)
    {
        coreSwitch(number);
        use(number, memory.at(block * 3 + (kind == CoreKind::AIC ? 0 : 1 + sub)));
    }
    void buffers(Position position = Position::VECCALC)
    {
        for (int i = 0; i < 4; ++i) {
            bufferInit(ub + i * 4096, 4096, position, ("buffer " + std::to_string(i)).c_str());
        }
    }
};

void load(void* dst, const void* src, uint64_t bytes)
{
    op(Pipe::MTE2, "DataCopy");
    access(Pipe::MTE2, "DataCopy", "src", false, src, bytes, 1, 0, 1);
    access(Pipe::MTE2, "DataCopy", "dst", true, dst, bytes, 1, 0, 32);
}

void store(void* dst, const void* src, uint64_t bytes)
{
    op(Pipe::MTE3, "DataCopyPad");
    access(Pipe::MTE3, "DataCopyPad", "src", false, src, bytes, 1, 0, 32);
    access(Pipe::MTE3, "DataCopyPad", "dst", true, dst, bytes, 1, 0, 1);
}

void add(void* dst, const void* a, const void* b, uint64_t bytes, uint32_t flags = 0)
{
    op(Pipe::V, "Add", flags);
    access(Pipe::V, "Add", "src0", false, a, bytes, 1, 0, 32);
    access(Pipe::V, "Add", "src1", false, b, bytes, 1, 0, 32);
    access(Pipe::V, "Add", "dst", true, dst, bytes, 1, 0, 32);
}

void fill(void* dst, uint64_t bytes)
{
    op(Pipe::V, "Duplicate");
    access(Pipe::V, "Duplicate", "dst", true, dst, bytes, 1, 0, 32);
}

void edge(HardEvent event, int id = 0)
{
    setFlag(event, id);
    waitFlag(event, id);
}

std::map<std::string, std::function<void()>> scenarios()
{
    std::map<std::string, std::function<void()>> s;
    auto vector = [&s](const char* name, std::function<void(Machine&)> body) {
        s[name] = [body] {
            Machine m;
            m.begin(CoreKind::AIV, 0);
            m.buffers();
            body(m);
            coreEnd();
        };
    };
    vector("clean_load_add_store", [](Machine& m) {
        load(m.ub, m.in.data(), 256);
        edge(HardEvent::MTE2_V);
        add(m.ub + 4096, m.ub, m.ub, 256);
        barrier(Pipe::V);
        add(m.ub + 4096, m.ub + 4096, m.ub, 256);
        edge(HardEvent::V_MTE3);
        store(m.out.data(), m.ub + 4096, 200);
        edge(HardEvent::MTE3_V);
        fill(m.ub + 4096, 64);
        barrier(Pipe::ALL);
        load(m.ub + 4096, m.in.data(), 64);
    });
    vector("read_before_load_is_done", [](Machine& m) {
        load(m.ub, m.in.data(), 256);
        add(m.ub + 4096, m.ub, m.ub, 256);
    });
    vector("overwrite_before_read_is_done", [](Machine& m) {
        load(m.ub, m.in.data(), 256);
        edge(HardEvent::MTE2_V);
        add(m.ub + 4096, m.ub, m.ub, 256);
        load(m.ub + 128, m.in.data(), 32);
    });
    vector("vector_raw_without_barrier", [](Machine& m) {
        fill(m.ub, 256);
        add(m.ub + 4096, m.ub, m.ub, 256);
    });
    vector("vector_war_without_barrier", [](Machine& m) {
        fill(m.ub, 256);
        barrier(Pipe::V);
        add(m.ub + 4096, m.ub, m.ub, 256);
        fill(m.ub + 32, 32);
    });
    vector("vector_waw_without_barrier", [](Machine& m) {
        fill(m.ub, 256);
        fill(m.ub + 224, 64);
    });
    vector("scalar_read_without_flag", [](Machine& m) {
        fill(m.ub, 256);
        op(Pipe::S, "GetValue");
        access(Pipe::S, "GetValue", "src", false, m.ub, 4, 1, 0, 4);
    });
    vector("clean_scalar_wait_holds_for_all_pipes", [](Machine& m) {
        fill(m.ub, 256);
        edge(HardEvent::V_S);
        op(Pipe::S, "GetValue");
        access(Pipe::S, "GetValue", "src", false, m.ub, 4, 1, 0, 4);
        store(m.out.data(), m.ub, 256);   // issued after the wait, so after the fill
    });
    vector("scalar_write_without_flag", [](Machine& m) {
        fill(m.ub, 64);
        edge(HardEvent::V_S);
        op(Pipe::S, "SetValue");
        access(Pipe::S, "SetValue", "dst", true, m.ub, 4, 1, 0, 4);
        add(m.ub + 4096, m.ub, m.ub, 32);
    });
    vector("clean_row_tail_is_exact", [](Machine& m) {
        fill(m.ub, 40);                    // ends inside a block
        barrier(Pipe::V);
        add(m.ub + 4096, m.ub, m.ub, 40);
        fill(m.ub + 64, 32);
    });
    vector("uninitialised_tail", [](Machine& m) {
        fill(m.ub, 40);
        barrier(Pipe::V);
        add(m.ub + 4096, m.ub, m.ub, 64);
    });
    vector("clean_column_of_rows", [](Machine& m) {
        op(Pipe::V, "Copy");
        access(Pipe::V, "Copy", "dst", true, m.ub, 32, 16, 64, 32);         // every second block
        op(Pipe::V, "Copy");
        access(Pipe::V, "Copy", "dst", true, m.ub + 32, 32, 16, 64, 32);
        barrier(Pipe::V);
        add(m.ub + 4096, m.ub, m.ub, 1024);
    });
    vector("uninitialised_column", [](Machine& m) {
        op(Pipe::V, "Copy");
        access(Pipe::V, "Copy", "dst", true, m.ub, 32, 16, 64, 32);
        barrier(Pipe::V);
        add(m.ub + 4096, m.ub, m.ub, 1024);
    });
    vector("race_with_one_run_of_many", [](Machine& m) {
        op(Pipe::V, "Copy");
        access(Pipe::V, "Copy", "dst", true, m.ub, 32, 4, 64, 32, View{}, 4, 512);
        fill(m.ub + 3 * 512 + 3 * 64, 32);
    });
    vector("unaligned_operand", [](Machine& m) {
        fill(m.ub, 256);
        barrier(Pipe::V);
        add(m.ub + 4096, m.ub + 4, m.ub, 32);
    });
    vector("buffer_end", [](Machine& m) { fill(m.ub + 4096 - 32, 64); });
    vector("no_buffer", [](Machine& m) { fill(m.ub + 4 * 4096, 32); });
    vector("tensor_end", [](Machine& m) {
        op(Pipe::V, "Duplicate");
        access(Pipe::V, "Duplicate", "dst", true, m.ub + 64, 64, 1, 0, 32, View{m.ub, 96});
    });
    vector("end_of_ub", [](Machine& m) { fill(m.ub + UB_BYTES - 32, 64); });
    vector("gm_end", [](Machine& m) {
        fill(m.ub, 64);
        edge(HardEvent::V_MTE3);
        store(m.out.data() + GM_BYTES - 60, m.ub, 64);
    });
    vector("gm_end_seen_by_view", [](Machine& m) {
        op(Pipe::MTE2, "DataCopy");
        access(Pipe::MTE2, "DataCopy", "src", false, m.in.data() + GM_BYTES, 64, 1, 0, 1,
               View{m.in.data(), 0});
    });
    vector("wrong_pipe_for_memory", [](Machine& m) {
        op(Pipe::V, "Add");
        access(Pipe::V, "Add", "src0", false, m.in.data(), 64, 1, 0, 1);
    });
    vector("cube_pipe_on_vector_core", [](Machine&) { op(Pipe::M, "Mmad"); });
    vector("write_to_input", [](Machine& m) {
        fill(m.ub, 64);
        edge(HardEvent::V_MTE3);
        store(m.in.data(), m.ub, 64);
    });
    vector("overlapping_operands", [](Machine& m) {
        fill(m.ub, 512);
        barrier(Pipe::V);
        add(m.ub + 32, m.ub, m.ub, 256);
    });
    vector("forbidden_alias", [](Machine& m) {
        fill(m.ub, 512);
        barrier(Pipe::V);
        add(m.ub, m.ub, m.ub, 256, OP_NO_ALIAS);
    });
    vector("clean_allowed_alias", [](Machine& m) {
        fill(m.ub, 512);
        barrier(Pipe::V);
        add(m.ub, m.ub, m.ub, 256);
    });
    vector("flag_set_twice", [](Machine&) {
        setFlag(HardEvent::V_MTE3, 0);
        setFlag(HardEvent::V_MTE3, 0);
        waitFlag(HardEvent::V_MTE3, 0);
    });
    vector("wait_without_set", [](Machine&) { waitFlag(HardEvent::V_MTE3, 1); });
    vector("flag_left_set", [](Machine&) { setFlag(HardEvent::V_MTE3, 1); });
    vector("event_of_tpipe", [](Machine&) { edge(HardEvent::V_MTE3, 6); });
    vector("clean_event_of_tpipe_by_queue", [](Machine&) {
        setFlag(HardEvent::V_MTE3, 7, true);
        waitFlag(HardEvent::V_MTE3, 7, true);
    });
    vector("event_id_range", [](Machine&) { edge(HardEvent::V_MTE3, 8); });
    vector("event_of_cube_core", [](Machine&) { edge(HardEvent::MTE1_M); });
    vector("flag_of_other_id_does_not_order", [](Machine& m) {
        setFlag(HardEvent::MTE2_V, 1);
        load(m.ub, m.in.data(), 64);
        waitFlag(HardEvent::MTE2_V, 1);
        add(m.ub + 4096, m.ub, m.ub, 64);
    });
    vector("clean_order_is_transitive", [](Machine& m) {
        load(m.ub, m.in.data(), 64);
        edge(HardEvent::MTE2_V);
        fill(m.ub + 4096, 64);
        edge(HardEvent::V_MTE3);
        store(m.out.data(), m.ub, 64);   // MTE2 before V before MTE3
    });
    vector("too_many_buffers", [](Machine& m) {
        for (int i = 0; i < 61; ++i) {
            bufferInit(m.ub + 16384 + i * 32, 32, Position::VECCALC, nullptr);
        }
    });
    vector("ub_overflow",
           [](Machine& m) { bufferInit(m.ub + 16384, UB_BYTES - 16384, Position::VECCALC, "big"); });
    vector("buffers_overlap",
           [](Machine& m) { bufferInit(m.ub + 8192 + 32, 64, Position::VECCALC, "late"); });
    vector("reserved_ub", [](Machine& m) {
        bufferInit(m.ub + 180 * 1024, 4096, Position::VECCALC, "high");
        reservedUb("Select");
    });
    vector("clean_reserved_ub", [](Machine&) { reservedUb("Select"); });
    vector("clean_queue_cycle", [](Machine& m) {
        for (int i = 0; i < 2; ++i) {
            queueAlloc(m.ub, 4096, Position::VECIN);
            load(m.ub, m.in.data(), 64);
            setFlag(HardEvent::MTE2_V, 0, true);
            queueEnque(m.ub, 4096, Position::VECIN);
            queueDeque(m.ub, 4096, Position::VECIN);
            waitFlag(HardEvent::MTE2_V, 0, true);
            add(m.ub + 4096, m.ub, m.ub, 64);
            barrier(Pipe::V);
            queueFree(m.ub, 4096, Position::VECIN);
            edge(HardEvent::V_MTE2, 1);
        }
    });
    vector("stale_content_of_new_tensor", [](Machine& m) {
        queueAlloc(m.ub, 4096, Position::VECIN);
        fill(m.ub, 64);
        queueFree(m.ub, 4096, Position::VECIN);
        queueAlloc(m.ub, 4096, Position::VECIN);
        barrier(Pipe::V);
        add(m.ub + 4096, m.ub, m.ub, 64);
        queueFree(m.ub, 4096, Position::VECIN);
    });
    vector("use_after_free", [](Machine& m) {
        queueAlloc(m.ub, 4096, Position::VECIN);
        queueFree(m.ub, 4096, Position::VECIN);
        fill(m.ub, 64);
    });
    vector("use_between_enque_and_deque", [](Machine& m) {
        queueAlloc(m.ub, 4096, Position::VECIN);
        queueEnque(m.ub, 4096, Position::VECIN);
        fill(m.ub, 64);
        queueDeque(m.ub, 4096, Position::VECIN);
        queueFree(m.ub, 4096, Position::VECIN);
    });
    vector("double_free", [](Machine& m) {
        queueAlloc(m.ub, 4096, Position::VECIN);
        queueFree(m.ub, 4096, Position::VECIN);
        queueFree(m.ub, 4096, Position::VECIN);
    });
    vector("deque_without_enque", [](Machine& m) {
        queueAlloc(m.ub, 4096, Position::VECIN);
        queueDeque(m.ub, 4096, Position::VECIN);
        queueFree(m.ub, 4096, Position::VECIN);
    });
    vector("tensor_never_freed", [](Machine& m) { queueAlloc(m.ub, 4096, Position::VECIN); });
    vector("free_of_part_of_a_tensor", [](Machine& m) {
        queueAlloc(m.ub, 4096, Position::VECIN);
        queueFree(m.ub + 32, 4096, Position::VECIN);
        queueFree(m.ub, 4096, Position::VECIN);
    });
    vector("cross_flag_in_vector_kernel", [](Machine&) { crossSet(0, Pipe::MTE3, 0); });
    vector("uninitialised_workspace", [](Machine& m) { load(m.ub, m.ws.data(), 64); });
    vector("gm_round_trip_without_flag", [](Machine& m) {
        fill(m.ub, 64);
        edge(HardEvent::V_MTE3);
        store(m.ws.data(), m.ub, 64);
        load(m.ub + 4096, m.ws.data(), 64);
    });
    vector("clean_gm_round_trip", [](Machine& m) {
        fill(m.ub, 64);
        edge(HardEvent::V_MTE3);
        store(m.ws.data(), m.ub, 64);
        edge(HardEvent::MTE3_MTE2);
        load(m.ub + 4096, m.ws.data(), 64);
    });
    vector("atomic_left_on", [](Machine&) { atomicMode(true); });
    vector("counter_mode_left_on", [](Machine&) { counterMode(true); });
    auto scalarStore = [](Machine& m, int clean) {
        op(Pipe::S, "SetValue");
        access(Pipe::S, "SetValue", "dst", true, m.out.data() + 8, 4, 1, 0, 4);
        if (clean == 1) {
            cacheCleaned(m.out.data() + 8);
        } else if (clean == 2) {
            cacheCleaned(nullptr);
        } else {
            cacheCleaned(m.out.data() + 4096);
        }
    };
    vector("cache_not_cleaned", [=](Machine& m) { scalarStore(m, 0); });
    vector("clean_cache_line", [=](Machine& m) { scalarStore(m, 1); });
    vector("clean_cache", [=](Machine& m) { scalarStore(m, 2); });
    vector("many_violations", [](Machine& m) {
        static const std::vector<std::string> nodes = [] {
            std::vector<std::string> v;
            for (int i = 0; i < 80; ++i) {
                v.push_back("node \"" + std::to_string(i) + "\"");
            }
            return v;
        }();
        for (int repeat = 0; repeat < 3; ++repeat) {
            for (const std::string& node : nodes) {
                setNode(node.c_str());
                fill(m.ub + 4096 - 32, 64);
                barrier(Pipe::V);
            }
        }
        setNode("last");
        waitFlag(HardEvent::V_MTE3, 0);
    });

    // Several cores. Neighbours write rows of 40 bytes, so that they share a block but no byte.
    auto twoStores = [](uint64_t second) {
        Machine m;
        for (uint32_t b = 0; b < 2; ++b) {
            m.begin(CoreKind::AIV, b);
            m.buffers();
            fill(m.ub, 64);
            edge(HardEvent::V_MTE3);
            store(m.out.data() + (b == 0 ? 0 : second), m.ub, 40);
            coreEnd();
        }
    };
    s["clean_neighbours_share_a_line"] = [=] { twoStores(40); };
    s["two_cores_write_one_byte"] = [=] { twoStores(36); };
    s["two_cores_write_read"] = [] {
        Machine m;
        m.begin(CoreKind::AIV, 0);
        m.buffers();
        load(m.ub, m.out.data(), 64);
        coreEnd();
        m.begin(CoreKind::AIV, 1);
        m.buffers();
        fill(m.ub, 64);
        edge(HardEvent::V_MTE3);
        store(m.out.data() + 32, m.ub, 64);
        coreEnd();
    };
    auto atomics = [](bool bothAtomic) {
        Machine m;
        for (uint32_t b = 0; b < 2; ++b) {
            m.begin(CoreKind::AIV, b);
            m.buffers();
            fill(m.ub, 64);
            edge(HardEvent::V_MTE3);
            atomicMode(b == 0 || bothAtomic);
            store(m.out.data(), m.ub, 64);
            atomicMode(false);
            coreEnd();
        }
    };
    s["clean_atomic_writes"] = [=] { atomics(true); };
    s["atomic_and_plain_write"] = [=] { atomics(false); };
    auto output = [](uint64_t bytes) {
        Machine m(AIV_ONLY, 2, GmRole::OUTPUT);
        m.begin(CoreKind::AIV, 0);
        bufferInit(m.ub, 65536, Position::VECCALC, "tile");
        fill(m.ub, 65536);
        edge(HardEvent::V_MTE3);
        store(m.out.data(), m.ub, bytes);
        coreEnd();
    };
    s["clean_output_written"] = [=] { output(GM_BYTES); };
    s["output_not_written"] = [=] { output(GM_BYTES - 4); };

    // A mix kernel: the cube core makes a tile, its two vector cores read it and give the slot back.
    auto ring = [](bool full, bool free, Pipe fullPipe, int tiles, int fullId) {
        Machine m(MIX_1_2, 1);
        int cube = m.begin(CoreKind::AIC, 0);
        bufferInit(m.l0c, 4096, Position::CO1, "L0C tile");
        int vec[2];
        for (uint32_t s = 0; s < 2; ++s) {
            vec[s] = m.begin(CoreKind::AIV, 0, s);
            m.buffers();
        }
        for (int t = 0; t < tiles; ++t) {
            m.on(cube, CoreKind::AIC, 0);
            if (t > 0 && free) {
                crossWait(1);
            }
            op(Pipe::M, "Mmad");
            access(Pipe::M, "Mmad", "c", true, m.l0c, 4096, 1, 0, 1024);
            edge(HardEvent::M_FIX);
            op(Pipe::FIX, "Fixpipe");
            access(Pipe::FIX, "Fixpipe", "src", false, m.l0c, 4096, 1, 0, 64);
            access(Pipe::FIX, "Fixpipe", "dst", true, m.ws.data(), 4096, 1, 0, 4);
            if (full) {
                crossSet(2, fullPipe, fullId);
            }
            edge(HardEvent::FIX_M);
            for (uint32_t s = 0; s < 2; ++s) {
                m.on(vec[s], CoreKind::AIV, 0, s);
                if (full) {
                    crossWait(fullId);
                }
                load(m.ub, m.ws.data() + s * 2048, 2048);
                if (free) {
                    crossSet(2, Pipe::MTE2, 1);
                }
                barrier(Pipe::ALL);
            }
        }
        if (free) {
            m.on(cube, CoreKind::AIC, 0);
            crossWait(1);
        }
        for (int core : {vec[0], vec[1], cube}) {
            coreSwitch(core);
            coreEnd();
        }
    };
    s["clean_ring"] = [=] { ring(true, true, Pipe::FIX, 20, 0); };
    s["ring_without_full"] = [=] { ring(false, true, Pipe::FIX, 2, 0); };
    s["ring_without_free"] = [=] { ring(true, false, Pipe::FIX, 2, 0); };
    s["ring_full_from_wrong_pipe"] = [=] { ring(true, true, Pipe::M, 2, 0); };
    s["ring_overflows_counter"] = [=] { ring(true, false, Pipe::FIX, 16, 0); };
    s["ring_reserved_id"] = [=] { ring(true, true, Pipe::FIX, 2, 12); };
    s["cross_flag_left_set"] = [] {
        Machine m(MIX_1_2, 1);
        m.begin(CoreKind::AIC, 0);
        crossSet(2, Pipe::FIX, 3);
        coreEnd();
    };
    s["cross_flag_half_set"] = [] {
        Machine m(MIX_1_2, 1);
        m.begin(CoreKind::AIV, 0, 0);
        crossSet(2, Pipe::MTE3, 3);
        coreEnd();
    };
    s["cross_flag_two_pipes"] = [] {
        Machine m(MIX_1_2, 1);
        int cube = m.begin(CoreKind::AIC, 0);
        crossSet(2, Pipe::FIX, 3);
        crossSet(2, Pipe::MTE2, 3);
        int vec[2] = {m.begin(CoreKind::AIV, 0, 0), m.begin(CoreKind::AIV, 0, 1)};
        for (int core : vec) {
            coreSwitch(core);
            crossWait(3);
            crossWait(3);
            coreEnd();
        }
        coreSwitch(cube);
        coreEnd();
    };
    s["cross_wait_without_set"] = [] {
        Machine m(MIX_1_2, 1);
        m.begin(CoreKind::AIV, 0, 0);
        crossWait(2);
        coreEnd();
    };
    s["deadlock_report"] = [] {
        Machine m(MIX_1_2, 1);
        m.begin(CoreKind::AIV, 0, 1);
        setNode("layer/MatMul");
        crossBlock(2);
        m.begin(CoreKind::AIC, 0);
        crossBlock(-1);
        deadlock();
    };
    auto grid = [](bool sync, bool mode0) {
        Machine m(MIX_1_2, 2);
        int cores[4];
        for (uint32_t i = 0; i < 4; ++i) {
            cores[i] = m.begin(CoreKind::AIV, i / 2, i % 2);
            m.buffers();
            fill(m.ub, 64);
            edge(HardEvent::V_MTE3);
            store(m.ws.data() + i * 64, m.ub, 64);
            if (sync && mode0) {
                crossSet(0, Pipe::MTE3, 4);
            } else if (sync) {
                syncAllArrive(false);
            }
        }
        for (uint32_t i = 0; i < 4; ++i) {
            m.on(cores[i], CoreKind::AIV, i / 2, i % 2);
            if (sync && mode0) {
                crossWait(4);
            } else if (sync) {
                syncAllLeave(false);
            }
            load(m.ub + 4096, m.ws.data() + (i + 1) % 4 * 64, 64);
            coreEnd();
        }
    };
    s["clean_sync_all"] = [=] { grid(true, false); };
    s["clean_mode_0"] = [=] { grid(true, true); };
    s["grid_without_sync"] = [=] { grid(false, false); };

    s["too_many_blocks_for_sync_all"] = [] {
        Machine m(MIX_1_2, 25);
        m.begin(CoreKind::AIV, 0);
        syncAllArrive(false);
        syncAllLeave(false);
        coreEnd();
    };

    auto mmads = [](uint32_t flags, bool barrierBetween) {
        Machine m(MIX_1_2, 1);
        m.begin(CoreKind::AIC, 0);
        bufferInit(m.l0c, 4096, Position::CO1, "L0C tile");
        for (int k = 0; k < 2; ++k) {
            op(Pipe::M, "Mmad", flags);
            if (k > 0) {
                access(Pipe::M, "Mmad", "c", false, m.l0c, 4096, 1, 0, 1024);
            }
            access(Pipe::M, "Mmad", "c", true, m.l0c, 4096, 1, 0, 1024);
            if (barrierBetween) {
                barrier(Pipe::M);
            }
        }
        coreEnd();
    };
    s["small_mmads_without_barrier"] = [=] { mmads(0, false); };
    s["clean_small_mmads"] = [=] { mmads(0, true); };
    s["clean_large_mmads"] = [=] { mmads(OP_M_ORDERED, false); };
    return s;
}

}  // namespace

// Runs one scenario; writes the report as JSON lines. Returns the number of violations, -1 for an unknown
// name.
extern "C" __attribute__((visibility("default"))) int64_t run_scenario(const char* name, char* out,
                                                                       uint64_t cap)
{
    static const auto all = scenarios();
    auto at = all.find(name);
    if (at == all.end()) {
        return -1;
    }
    at->second();
    report(out, cap);
    return static_cast<int64_t>(violationCount());
}

// Names of all scenarios, one a line.
extern "C" __attribute__((visibility("default"))) void scenario_names(char* out, uint64_t cap)
{
    std::string names;
    for (const auto& [name, body] : scenarios()) {
        names += name + "\n";
    }
    strncpy(out, names.c_str(), cap - 1);
    out[cap - 1] = '\0';
}
