// SPDX-License-Identifier: Apache-2.0
// LocalTensor and GlobalTensor: typed views of a core's memory and of global memory.
#ifndef GAF_TWIN_TENSOR_H
#define GAF_TWIN_TENSOR_H

#include "twin/core.h"

namespace gaf_twin {

template <class T>
constexpr check::Number NUMBER = std::is_same<T, half>::value         ? check::Number::F16
                                 : std::is_same<T, bfloat16_t>::value ? check::Number::BF16
                                 : std::is_same<T, float>::value      ? check::Number::F32
                                                                      : check::Number::OTHER;

}  // namespace gaf_twin

namespace AscendC {

struct TBuffAddr {
    uint32_t dataLen = 0;
    uint32_t bufferAddr = 0;
    gaf_twin::Buffer* bufferHandle = nullptr;
    uint8_t logicPos = 0;
    uint8_t* absAddr = nullptr;
};
using TBufHandle = gaf_twin::Buffer*;

// Shape that a program notes on a tensor; nothing but DumpTensor and a few high-level calls look at it.
#ifndef K_MAX_SHAPE_DIM  // a program may define it before it includes kernel_operator.h
#define K_MAX_SHAPE_DIM 8
#endif
enum class DataFormat : uint8_t { ND = 0, NZ, NCHW, NC1HWC0, NHWC, NCDHW, NDC1HWC0, FRACTAL_Z_3D };
struct ShapeInfo {
    ShapeInfo() {}
    ShapeInfo(uint8_t dim, const uint32_t dims[], uint8_t originalDim, const uint32_t originalDims[],
              DataFormat format)
        : shapeDim(dim), originalShapeDim(originalDim), dataFormat(format)
    {
        for (int i = 0; i < K_MAX_SHAPE_DIM; ++i) {
            shape[i] = i < dim ? dims[i] : 0;
            originalShape[i] = i < originalDim ? originalDims[i] : 0;
        }
    }
    ShapeInfo(uint8_t dim, const uint32_t dims[], DataFormat format = DataFormat::ND)
        : ShapeInfo(dim, dims, dim, dims, format)
    {
    }
    uint8_t shapeDim = 0, originalShapeDim = 0;
    uint32_t shape[K_MAX_SHAPE_DIM] = {};
    uint32_t originalShape[K_MAX_SHAPE_DIM] = {};
    DataFormat dataFormat = DataFormat::ND;
};
inline uint64_t GetShapeSize(const ShapeInfo& shapeInfo)
{
    uint64_t n = 1;
    for (int i = 0; i < shapeInfo.shapeDim; ++i) {
        n *= shapeInfo.shape[i];
    }
    return n;
}

// What the operators on tensors return; assigning it to a tensor runs the instruction (operators.h).
template <class T>
class LocalTensor;
template <class T, int OPERATOR>
struct TensorPair {
    const LocalTensor<T>& a;
    const LocalTensor<T>& b;
};

template <class T>
class LocalTensor {
public:
    using PrimType = T;
    LocalTensor() {}
    LocalTensor(T* p, uint32_t count, TPosition position, gaf_twin::Buffer* buffer)
        : ptr_(p), size_(count), position_(position), buffer_(buffer)
    {
    }
    // A tensor at byte `address` of the memory of `position`, of a kernel that places its tensors itself.
    LocalTensor(TPosition position, uint32_t address, uint32_t count) : size_(count), position_(position)
    {
        const Hardware memory = gaf_twin::HardwareOf(position);
        const gaf_twin::Core& core = gaf_twin::Current();
        uint8_t* base = gaf_twin::HasMemory(core, position) ? core.arena[static_cast<uint32_t>(memory)] : nullptr;
        if (base == nullptr && core.kind == gaf_twin::CoreKind::AIC && memory == Hardware::UB) {
            base = gaf_twin::AbsentMemory();
        }
        gaf_twin::check::staticTensors();
        if (base == nullptr || uint64_t(address) + gaf_twin::ElementBytes<T>(count) > gaf_twin::BytesOf(memory)) {
            gaf_twin::check::rule(false, "memory-overflow", "LocalTensor",
                                  "%u elements at byte %u do not fit %s", count, address,
                                  gaf_twin::PositionName(position));
            gaf_twin::Abandon("memory-overflow", "a LocalTensor lies outside of the core's memory");
        }
        ptr_ = reinterpret_cast<T*>(base + address);
    }
    template <class U, int OPERATOR>
    void operator=(const TensorPair<U, OPERATOR>& pair)
    {
        AssignPair(*this, pair);
    }

    T* GetPhyAddr() const { return ptr_; }
    T* GetPhyAddr(uint32_t offset) const { return ptr_ + offset; }
    uint32_t GetSize() const { return size_; }
    uint32_t GetLength() const { return static_cast<uint32_t>(gaf_twin::ElementBytes<T>(size_)); }
    void SetSize(uint32_t count) { size_ = count; }
    void SetBufferLen(uint32_t count) { size_ = count; }
    int32_t GetPosition() const { return static_cast<int32_t>(position_); }
    gaf_twin::Buffer* GetBufferHandle() const { return buffer_; }
    void SetUserTag(TTagType tag)
    {
        if (buffer_ != nullptr) {
            buffer_->userTag = tag;
        }
    }
    TTagType GetUserTag() const { return buffer_ != nullptr ? buffer_->userTag : -1; }

    // What an access check needs to know about the tensor that an operand belongs to.
    gaf_twin::check::View View() const
    {
        return {ptr_, uint64_t(size_) * sizeof(T), sizeof(T), gaf_twin::NUMBER<T>};
    }

    LocalTensor operator[](uint32_t offset) const
    {
        if (!gaf_twin::check::rule(offset <= size_, "tensor-offset", "LocalTensor::operator[]",
                                   "offset %u is beyond the %u elements of the tensor", offset, size_)) {
            return LocalTensor(gaf_twin::Advance(ptr_, size_), 0, position_, buffer_);
        }
        return LocalTensor(gaf_twin::Advance(ptr_, offset), size_ - offset, position_, buffer_);
    }
    template <class U>
    LocalTensor<U> ReinterpretCast() const
    {
        return LocalTensor<U>(reinterpret_cast<U*>(ptr_),
                              static_cast<uint32_t>(gaf_twin::ElementsIn<U>(gaf_twin::ElementBytes<T>(size_))), position_,
                              buffer_);
    }
    T GetValue(uint32_t i) const { return Scalar("GetValue", "src", false, i) ? ptr_[i] : T(0); }
    template <class U>
    void SetValue(uint32_t i, U value) const
    {
        if (Scalar("SetValue", "dst", true, i)) {
            ptr_[i] = static_cast<T>(value);
        }
    }
    T& operator()(uint32_t i) const
    {
        static thread_local T nowhere;
        return Scalar("operator()", "tensor", true, i) ? ptr_[i] : nowhere;
    }
    template <class U>
    void SetAddrWithOffset(LocalTensor<U>& src, uint32_t offset)
    {
        ptr_ = reinterpret_cast<T*>(src.GetPhyAddr()) + offset;
        position_ = static_cast<TPosition>(src.GetPosition());
        buffer_ = src.GetBufferHandle();
        size_ = static_cast<uint32_t>(src.GetSize() * sizeof(U) / sizeof(T)) - offset;
    }

#if !defined(GAF_TWIN_LEAN)
    void SetShapeInfo(const ShapeInfo& shapeInfo) { shapeInfo_ = shapeInfo; }
    ShapeInfo GetShapeInfo() const { return shapeInfo_; }
#endif

private:
    bool Scalar(const char* api, const char* operand, bool write, uint32_t i) const
    {
        gaf_twin::check::op(gaf_twin::Pipe::S, api);
        return gaf_twin::Touch(gaf_twin::Pipe::S, api, operand, write, ptr_ + i, sizeof(T), 1, 0, sizeof(T),
                               View());
    }

#if !defined(GAF_TWIN_LEAN)
    ShapeInfo shapeInfo_;
#endif
    T* ptr_ = nullptr;
    uint32_t size_ = 0;
    TPosition position_ = TPosition::MAX;
    gaf_twin::Buffer* buffer_ = nullptr;
};

template <class T>
class GlobalTensor {
public:
    using PrimType = T;
    GlobalTensor() {}
    void SetGlobalBuffer(T* p, uint64_t count)
    {
        ptr_ = base_ = p;
        size_ = declared_ = count;
        gaf_twin::check::gmView(p, gaf_twin::ElementBytes<T>(count));
    }
    void SetGlobalBuffer(T* p)
    {
        ptr_ = base_ = p;
        size_ = declared_ = 0;
        gaf_twin::check::gmView(p, 0);
    }
    T* GetPhyAddr() const { return ptr_; }
    T* GetPhyAddr(uint64_t offset) const { return ptr_ + offset; }
    uint64_t GetSize() const { return size_; }
    GlobalTensor operator[](uint64_t offset) const
    {
        GlobalTensor r = *this;
        r.ptr_ = gaf_twin::Advance(ptr_, offset);
        r.size_ = size_ > offset ? size_ - offset : 0;
        return r;
    }
    gaf_twin::check::View View() const
    {
        return {base_, declared_ * sizeof(T), sizeof(T), gaf_twin::NUMBER<T>};
    }
    T GetValue(uint64_t i) const
    {
        return Scalar("GlobalTensor::GetValue", "src", false, i) ? ptr_[i] : T(0);
    }
    void SetValue(uint64_t i, T value) const
    {
        if (Scalar("GlobalTensor::SetValue", "dst", true, i)) {
            gaf_twin::Current().scalarWrote = true;
            ptr_[i] = value;
        }
    }
    T& operator()(uint64_t i) const
    {
        static thread_local T nowhere;
        gaf_twin::Current().scalarWrote = true;
        return Scalar("GlobalTensor::operator()", "tensor", true, i) ? ptr_[i] : nowhere;
    }
#if !defined(GAF_TWIN_LEAN)
    void SetShapeInfo(const ShapeInfo& shapeInfo) { shapeInfo_ = shapeInfo; }
    ShapeInfo GetShapeInfo() const { return shapeInfo_; }
#endif
    template <CacheRwMode MODE = CacheRwMode::RW>
    void SetL2CacheHint(CacheMode)
    {
    }

private:
    bool Scalar(const char* api, const char* operand, bool write, uint64_t i) const
    {
        gaf_twin::check::op(gaf_twin::Pipe::S, api);
        return gaf_twin::Touch(gaf_twin::Pipe::S, api, operand, write, ptr_ + i, sizeof(T), 1, 0, sizeof(T),
                               View());
    }

#if !defined(GAF_TWIN_LEAN)
    ShapeInfo shapeInfo_;
#endif
    T* ptr_ = nullptr;
    T* base_ = nullptr;
    uint64_t size_ = 0, declared_ = 0;
};

}  // namespace AscendC

#endif  // GAF_TWIN_TENSOR_H
