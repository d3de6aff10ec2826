// SPDX-License-Identifier: Apache-2.0
// As much of the graph engine as an operator's host code touches, so that a test can call that code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

namespace ge {
using graphStatus = uint32_t;
constexpr graphStatus GRAPH_SUCCESS = 0, GRAPH_FAILED = 1;
enum DataType { DT_FLOAT, DT_FLOAT16, DT_BF16, DT_BOOL, DT_INT64, DT_INT32, DT_INT16, DT_INT8, DT_UINT8 };
enum Format { FORMAT_ND };
}  // namespace ge

namespace gert {

struct Shape {
    std::vector<int64_t> dims;
    size_t GetDimNum() const { return dims.size(); }
    int64_t GetDim(size_t axis) const { return dims[axis]; }
    void SetDimNum(size_t n) { dims.resize(n); }
    void SetDim(size_t axis, int64_t value) { dims[axis] = value; }
};

struct StorageShape {
    Shape shape;
    const Shape &GetOriginShape() const { return shape; }
};

struct InferShapeContext {
    std::vector<Shape> inputs, outputs;
    const Shape *GetInputShape(size_t i) { return i < inputs.size() ? &inputs[i] : nullptr; }
    Shape *GetOutputShape(size_t i) { return i < outputs.size() ? &outputs[i] : nullptr; }
};

struct InferDataTypeContext {
    std::vector<ge::DataType> outputs;
    void SetOutputDataType(size_t i, ge::DataType type) { outputs.resize(i + 1), outputs[i] = type; }
};

struct TilingContext {
    std::vector<StorageShape> inputs;
    std::vector<unsigned char> tiling = std::vector<unsigned char>(4096);
    size_t workspace = 0;
    uint32_t blocks = 0, schedule = 0;
    uint64_t key = 0;
    const StorageShape *GetInputShape(size_t i) { return i < inputs.size() ? &inputs[i] : nullptr; }
    template <class T>
    T *GetTilingData()
    {
        return reinterpret_cast<T *>(tiling.data());
    }
    size_t *GetWorkspaceSizes(size_t) { return &workspace; }
    void SetBlockDim(uint32_t n) { blocks = n; }
    void SetTilingKey(uint64_t k) { key = k; }
    void SetScheduleMode(uint32_t mode) { schedule = mode; }
    int GetPlatformInfo() { return 0; }
};

}  // namespace gert

enum Option { REQUIRED };

struct OpParamDef {
    std::string name;
    std::vector<ge::DataType> types;
    OpParamDef &ParamType(Option) { return *this; }
    OpParamDef &DataType(std::initializer_list<ge::DataType> list) { return types = list, *this; }
    OpParamDef &Format(std::initializer_list<ge::Format>) { return *this; }
    OpParamDef &AutoContiguous() { return *this; }
};

struct OpAICoreDef {
    ge::graphStatus (*tiling)(gert::TilingContext *) = nullptr;
    std::string config;
    OpAICoreDef &SetTiling(ge::graphStatus (*f)(gert::TilingContext *)) { return tiling = f, *this; }
    OpAICoreDef &AddConfig(const char *name) { return config = name, *this; }
};

struct OpDef {
    explicit OpDef(const char *name) : type(name) {}
    std::string type;
    std::vector<OpParamDef *> inputs, outputs;
    ge::graphStatus (*shapes)(gert::InferShapeContext *) = nullptr;
    ge::graphStatus (*dtypes)(gert::InferDataTypeContext *) = nullptr;
    OpAICoreDef core;
    OpParamDef &Input(const char *name) { return *inputs.emplace_back(new OpParamDef{name, {}}); }
    OpParamDef &Output(const char *name) { return *outputs.emplace_back(new OpParamDef{name, {}}); }
    OpDef &SetInferShape(ge::graphStatus (*f)(gert::InferShapeContext *)) { return shapes = f, *this; }
    OpDef &SetInferDataType(ge::graphStatus (*f)(gert::InferDataTypeContext *)) { return dtypes = f, *this; }
    OpAICoreDef &AICore() { return core; }
};

inline OpDef *&Registered()
{
    static OpDef *op = nullptr;
    return op;
}

#define OP_ADD(TYPE) static const OpDef *added_##TYPE = Registered() = new TYPE(#TYPE)
