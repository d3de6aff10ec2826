// SPDX-License-Identifier: Apache-2.0
// What calls of the high-level API share: operands touched as one instruction, temporary memory, rows.
//
// Such a call runs several instructions on the device with barriers of its own; the twin carries it out at
// once, in float where the toolkit's temporaries are float.
#ifndef GAF_TWIN_HIGH_H
#define GAF_TWIN_HIGH_H

#include "twin/math.h"

namespace gaf_twin {

// One call: operands are announced in order, ok() says whether all may be touched.
class HighCall {
public:
    explicit HighCall(const char* api, uint32_t flags = 0) : api_(api) { check::op(Pipe::V, api, flags); }

    template <class T>
    HighCall& Read(const char* operand, const AscendC::LocalTensor<T>& t, uint64_t count)
    {
        ok_ = ok_ && (count == 0 || TouchFlat(api_, operand, false, t, count));
        return *this;
    }
    template <class T>
    HighCall& Write(const char* operand, const AscendC::LocalTensor<T>& t, uint64_t count)
    {
        ok_ = ok_ && (count == 0 || TouchFlat(api_, operand, true, t, count));
        return *this;
    }
    // `rows` rows of `count` elements, `pitch` elements apart.
    template <class T>
    HighCall& ReadRows(const char* operand, const AscendC::LocalTensor<T>& t, uint64_t count, uint32_t rows,
                       uint64_t pitch)
    {
        return Rows(operand, false, t, count, rows, pitch);
    }
    template <class T>
    HighCall& WriteRows(const char* operand, const AscendC::LocalTensor<T>& t, uint64_t count, uint32_t rows,
                        uint64_t pitch)
    {
        return Rows(operand, true, t, count, rows, pitch);
    }
    // Temporary memory of at least `need` bytes; all of it counts as written.
    template <class U>
    HighCall& Tmp(const AscendC::LocalTensor<U>& tmp, uint64_t need)
    {
        const uint64_t bytes = uint64_t(tmp.GetSize()) * sizeof(U);
        check::rule(bytes >= need, "tmp-size", api_, "sharedTmpBuffer has %llu bytes, at least %llu are needed",
                    static_cast<unsigned long long>(bytes), static_cast<unsigned long long>(need));
        ok_ = ok_ && (bytes == 0 || check::access(Pipe::V, api_, "sharedTmpBuffer", true, tmp.GetPhyAddr(), bytes,
                                                  1, 0, 32, tmp.View()));
        return *this;
    }
    // Without sharedTmpBuffer the call takes what is left of UB behind the buffers.
    HighCall& Stack(uint64_t need)
    {
        const uint64_t left = UB_BYTES - 256 - Current().used[static_cast<uint32_t>(Hardware::UB)];
        check::rule(left >= need, "tmp-size", api_,
                    "without sharedTmpBuffer %llu bytes must be left in UB, there are %llu",
                    static_cast<unsigned long long>(need), static_cast<unsigned long long>(left));
        return *this;
    }
    HighCall& TmpOrStack(const AscendC::LocalTensor<uint8_t>* tmp, uint64_t need)
    {
        return tmp != nullptr ? Tmp(*tmp, need) : Stack(need);
    }
    HighCall& Reserved()
    {
        check::reservedUb(api_);
        return *this;
    }
    template <class... A>
    HighCall& Rule(bool fine, const char* name, const char* format, A... args)
    {
        check::rule(fine, name, api_, format, args...);
        return *this;
    }
    bool ok() const { return ok_; }

private:
    template <class T>
    HighCall& Rows(const char* operand, bool write, const AscendC::LocalTensor<T>& t, uint64_t count,
                   uint32_t rows, uint64_t pitch)
    {
        ok_ = ok_ && (count == 0 || rows == 0 ||
                      check::access(Pipe::V, api_, operand, write, t.GetPhyAddr(), count * sizeof(T), rows,
                                    static_cast<int64_t>(pitch * sizeof(T)), 1, t.View()));
        return *this;
    }

    const char* api_;
    bool ok_ = true;
};

template <class T>
inline float F(T v)
{
    return static_cast<float>(v);
}

using Tmp8 = AscendC::LocalTensor<uint8_t>;
constexpr const Tmp8* NO_TMP = nullptr;

}  // namespace gaf_twin

#endif  // GAF_TWIN_HIGH_H
